package client

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// A rejection is a metric label from a closed set.
type rejection string

const (
	serverFull   rejection = "full"
	addressFull  rejection = "address"
	crowdedOut   rejection = "unregistered" // evicted for a newer one
	shuttingDown rejection = "shutdown"
	blockedByUs  rejection = "blocked"
)

func (r rejection) sentence() string {
	switch r {
	case serverFull:
		return "this server is full"
	case addressFull:
		return "too many connections from your address"
	case crowdedOut:
		return "too many connections are not registered yet"
	case blockedByUs:
		return federation.PolicyDenied.Upper() + " the operator of this gateway has blocked this source"
	case shuttingDown:
	}
	return "the gateway ends"
}

// The goroutine of the server owns its admission.
type admission struct {
	addresses map[netip.Prefix]int
	strangers *bridge.EvictionQueue[*user]
}

func newAdmission() admission {
	return admission{addresses: map[netip.Prefix]int{}, strangers: bridge.NewEvictionQueue[*user]()}
}

func (a admission) add(u *user) {
	a.addresses[u.from]++
	a.strangers.Add(u.from, u)
}

func (a admission) leave(u *user) {
	a.strangers.Remove(u)
	if a.addresses[u.from]--; a.addresses[u.from] == 0 {
		delete(a.addresses, u.from)
	}
}

// The connection's reader calls admit.
func (s *server) admit(ctx context.Context, u *user) (why rejection) {
	answer := make(chan rejection, 1)
	if !s.ask(func() { answer <- s.addConnection(ctx, u) }) {
		return shuttingDown
	}
	return <-answer
}

// An address at its share loses its oldest unregistered connection. Otherwise, the address with the
// most unregistered connections loses one. A client that registers promptly is therefore admitted
// regardless of other addresses.
func (s *server) addConnection(ctx context.Context, u *user) (why rejection) {
	limits := s.link.ports.Limits.Current()
	if share := limits.ConnectionsPerAddress; share > 0 && u.from.IsValid() && s.admission.addresses[u.from] >= share {
		oldest, ok := s.admission.strangers.NextOf(u.from)
		if !ok {
			return addressFull
		}
		s.evict(ctx, oldest, addressFull)
	}
	most, strangers := limits.UnregisteredConnections, s.admission.strangers
	full, crowded := len(s.connected) >= s.link.cfg.MaxClients, most > 0 && strangers.Len() >= most
	if full || crowded {
		oldest, _, ok := strangers.Next()
		if !ok {
			return serverFull
		}
		s.evict(ctx, oldest, crowdedOut)
	}
	s.connected[u] = true
	s.admission.add(u)
	u.since, u.lastInput, u.host = time.Now(), time.Now(), s.cloak(u.addr)
	return ""
}

func (s *server) evict(ctx context.Context, u *user, why rejection) {
	s.link.ports.Metrics.Closed.WithLabelValues(network, string(why)).Inc()
	s.log.LogAttrs(ctx, slog.LevelInfo, "connection evicted", slog.String("reason", why.sentence()))
	s.quit(u, why.sentence())
}

// turnAway omits the reason if it requires a handshake, which could overload the server.
func (s *server) turnAway(ctx context.Context, u *user, why rejection) {
	s.link.ports.Metrics.Closed.WithLabelValues(network, string(why)).Inc()
	s.log.LogAttrs(ctx, slog.LevelInfo, "connection refused", slog.String("reason", why.sentence()))
	if !u.certified() {
		_ = u.wire.Write(textMessage("", "ERROR", "Closing link: "+why.sentence()).line(0, "", time.Now()))
	}
	_ = u.wire.Close()
}

var _ bridge.ClientCloser = (*Link)(nil)

func (s *server) letIn(ctx context.Context, u *user) (why rejection) {
	if s.blocked(ctx, federation.Source{Network: network, Address: u.from}) {
		return blockedByUs
	}
	return s.admit(ctx, u)
}

// blocked does not block on the record.
func (s *server) blocked(ctx context.Context, from federation.Source) bool {
	_, blocked := errors.AsType[*federation.RefusalError](s.link.ports.CheckBlocked(ctx, from))
	return blocked
}

func (s *server) mayLogIn(ctx context.Context, did federation.DID) error {
	err := s.link.ports.CheckBlocked(ctx, federation.Source{Network: network, Link: s.link.Name(), DIDs: []federation.DID{did}})
	if _, blocked := errors.AsType[*federation.RefusalError](err); blocked {
		return loginError(blockedByUs.sentence())
	}
	return err
}

// CloseClients implements [bridge.ClientCloser].
func (l *Link) CloseClients(blocked func(federation.Source) bool) {
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

func (s *server) source(u *user) federation.Source {
	from := federation.Source{Network: network, Address: u.from, Link: s.link.Name(), Name: u.nick, User: u.ident}
	if u.account != "" {
		from.DIDs = []federation.DID{u.account}
	}
	return from
}
