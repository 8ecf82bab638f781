package client

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/federation"
)

// The record stores the markers of an account.
//
// spec: ircv3 read-marker (draft)
func (s *server) onMarkread(ctx context.Context, u *user, m ircmsg.Message) {
	switch {
	case !u.caps.has(capReadMarker):
		s.reply(u, errUnknownCommand, m.Command, "Unknown command")
		return
	case len(m.Params) == 0 || m.Params[0] == "":
		s.fail(u, m.Command, "NEED_MORE_PARAMS", "", "Missing parameters")
		return
	}
	target, key := clipParam(m.Params[0]), s.markerKey(m.Params[0])
	if len(m.Params) == 1 {
		s.sendMarker(u, target, key)
		return
	}
	value, isTime := strings.CutPrefix(m.Params[1], "timestamp=")
	at, err := time.Parse(time.RFC3339Nano, value)
	switch {
	case !isTime || err != nil:
		s.fail(u, m.Command, "INVALID_PARAMS", target, "Want timestamp=YYYY-MM-DDThh:mm:ss.sssZ")
	case u.account == "":
		u.mark(key, at)
		s.sendMarker(u, target, key)
	default:
		did := u.account
		s.wait(ctx, u, &later{
			do: func(ctx context.Context) { at, err = s.link.deps.Record.KeepMarker(ctx, did, key, at) },
			note: func() {
				if err != nil {
					s.log.LogAttrs(ctx, slog.LevelError, "read marker not kept", slog.Any("err", err))
					s.fail(u, m.Command, "INTERNAL_ERROR", target, "The marker could not be kept; try again later")
					return
				}
				for client := range s.accounts[did] {
					if client.mark(key, at); client.caps.has(capReadMarker) {
						s.sendMarker(client, target, key)
					}
				}
			},
		})
	}
}

func (s *server) markerKey(target string) string {
	if strings.HasPrefix(target, "#") {
		return fold(clipParam(target))
	}
	if did := s.correspondent(target); did != "" {
		return string(did)
	}
	return fold(clipParam(target))
}

// At the limit, mark removes the oldest marker.
func (u *user) mark(key string, at time.Time) {
	if u.markers == nil {
		u.markers = map[string]time.Time{}
	}
	if !at.After(u.markers[key]) {
		return
	}
	u.markers[key] = at
	if len(u.markers) > federation.MaxMarkers {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(u.markers)), func(a, b string) int { return u.markers[a].Compare(u.markers[b]) })
		delete(u.markers, oldest)
	}
}

func (s *server) sendMarker(u *user, target, key string) {
	value := "*"
	if at := u.markers[key]; !at.IsZero() {
		value = "timestamp=" + at.UTC().Format(timeLayout)
	}
	s.send(u, newMessage(s.name, "MARKREAD", target, value))
}

// The owner must not call markersOf.
func (s *server) markersOf(ctx context.Context, did federation.DID) map[string]time.Time {
	markers, err := s.link.deps.Record.Markers(ctx, did)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "read markers not read", slog.Any("err", err))
	}
	return markers
}
