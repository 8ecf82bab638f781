package client

import (
	"context"
	"errors"

	"baton/bridge"
	"baton/federation"
)

var _ bridge.Dismisser = (*Link)(nil)

// letIn lets a connection in, or returns why not. It is called by its reader.
func (s *server) letIn(ctx context.Context, u *user) (why rejection) {
	if s.blocked(ctx, federation.Source{Network: network, Address: u.from}) {
		return blockedByUs
	}
	return s.admit(ctx, u)
}

// blocked reports whether an operator blocked an address or a mask, which are looked for in
// memory: that cannot fail.
func (s *server) blocked(ctx context.Context, from federation.Source) bool {
	_, blocked := errors.AsType[*federation.RefusalError](s.link.ports.CheckBlocked(ctx, from))
	return blocked
}

// mayLogIn returns a [loginError] for a DID that an operator blocked.
func (s *server) mayLogIn(ctx context.Context, did federation.DID) error {
	err := s.link.ports.CheckBlocked(ctx, federation.Source{Network: network, Link: s.link.Name(), DIDs: []federation.DID{did}})
	if _, blocked := errors.AsType[*federation.RefusalError](err); blocked {
		return loginError(blockedByUs.sentence())
	}
	return err
}

// Dismiss implements [bridge.Dismisser].
func (l *Link) Dismiss(blocked func(federation.Source) bool) {
	s := l.live.Load()
	if s == nil {
		return
	}
	go s.post(func() {
		for u := range s.connected {
			if blocked(s.source(u)) {
				s.quit(u, blockedByUs.sentence())
			}
		}
	})
}

// source returns where a client comes from.
func (s *server) source(u *user) federation.Source {
	from := federation.Source{Network: network, Address: u.from, Link: s.link.Name(), Name: u.nick, User: u.ident}
	if u.account != "" {
		from.DIDs = []federation.DID{u.account}
	}
	return from
}
