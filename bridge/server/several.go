package server

import (
	"context"
	"errors"
	"log/slog"

	"baton/configs"
)

// shared reports whether a home may have several gateways.
func shared(file *configs.File) bool { return file.Store.Driver == configs.Postgres }

// takeUp reads what operators changed at other gateways of the home and is kept in memory
// here: the gateway's own keys, the homes that were added, and the modes of peers.
func (s *Server) takeUp(ctx context.Context) error {
	return errors.Join(s.takeUpKeys(ctx), s.homes.peering.TakeUp(ctx), s.takeUpModes(ctx))
}

func (s *Server) takeUpModes(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.readModes(ctx)
}

func (s *Server) takeUpKeys(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	changed, err := s.keyring.Reread()
	if changed {
		s.useKeys()
		s.log.LogAttrs(ctx, slog.LevelInfo, "keys read again")
	}
	return err
}
