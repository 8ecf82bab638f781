package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation/identity"
)

// rotate gives the gateway another key, and gives the new keys to each component that signs or
// verifies with them. A signature that is made meanwhile is of the old key, which is valid.
func (s *Server) rotate(ctx context.Context, text string, overlap time.Duration, now time.Time) (contract.Key, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	name, err := identity.ParseKeyName(text)
	if err != nil {
		return contract.Key{}, &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: oneLine(err)}
	}
	made, err := s.keyring.Rotate(name, overlap, now)
	if word := RefusedKey(err); word != "" {
		return contract.Key{}, &operatorapi.ProblemError{Status: http.StatusConflict, Code: word, Detail: oneLine(err)}
	}
	if err != nil {
		return contract.Key{}, fmt.Errorf("rotate key %s: %w", name, err)
	}
	if err := s.Record.MarkOwnKeys(context.WithoutCancel(ctx), s.keyring.Marks(now)); err != nil { // the next start does it
		s.log.LogAttrs(ctx, slog.LevelError, "rotated key not noted in the record", slog.String("key", string(name)), slog.Any("err", err))
	}
	s.useKeys()
	s.Gateway.TellReplicas()
	return ShowKey(made, s.file, now), nil
}

// useKeys gives the current keys of the gateway to each component that signs or verifies with
// them.
func (s *Server) useKeys() {
	s.openKeys()
	s.limit(s.limited)
}

// oneLine returns the text of an error in one line.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}
