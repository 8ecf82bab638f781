package freeq

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// peerDelay is how long this link waits for another freeq server to deliver its own step. A peered
// server needs a fraction of a second if it has the signer's key, and at most five seconds to fetch
// the key.
const (
	peerDelay = 5 * time.Second
	peerLook  = 500 * time.Millisecond
)

// A known handoff takes some 400 bytes.
const (
	maxKnown   = 1 << 14
	maxWorkers = 64
)

// A server may name any number of other servers in its log.
const maxPeered = 1 << 10

// Only the origin server decides about the steps of a handoff.
type parties struct {
	origin           string // endpoint ID
	offerer, offeree federation.DID
	workers          []federation.DID // that accepted, claimed or bid
}

// peers outlives the connection, and is safe for concurrent use.
//
// The operators can end the peering of two servers at any time. It is assumed from the last step,
// and only determines how long to wait for a step.
type peers struct {
	mu       sync.Mutex
	expected map[string]bool // by endpoint ID; absent before the first step
	handoffs map[federation.HandoffID]*parties
}

func newPeers() *peers {
	return &peers{expected: map[string]bool{}, handoffs: map[federation.HandoffID]*parties{}}
}

// Only a fresh step is evidence of the peering.
func (p *peers) saw(row replayed, fresh bool) {
	step, err := translate.FromDocument(row.Canonical)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if row.Origin != "" && fresh {
		p.expect(row.Origin, true)
	}
	if row.Subject == "" {
		to, _ := federation.ParseDID(step.Fields["act-to"])
		p.open(step.ID, &parties{origin: row.Origin, offerer: step.From, offeree: to})
		return
	}
	id, err := federation.ParseEventID(row.Subject)
	if err != nil {
		return
	}
	of := p.handoffs[id]
	if of == nil || !slices.Contains([]string{"accept", "claim", "bid"}, step.Fields["act-verb"]) {
		return
	}
	if len(of.workers) < maxWorkers && !slices.Contains(of.workers, step.From) {
		of.workers = append(of.workers, step.From)
	}
}

func (p *peers) open(id federation.HandoffID, of *parties) {
	if p.handoffs[id] != nil {
		return
	}
	if len(p.handoffs) >= maxKnown {
		clear(p.handoffs) // the next connection reads the log again
	}
	p.handoffs[id] = of
}

func (p *peers) expect(endpoint string, comes bool) {
	if len(p.expected) >= maxPeered {
		clear(p.expected)
	}
	p.expected[endpoint] = comes
}

func (p *peers) lacked(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expect(endpoint, false)
}

// expects returns true for the first step of a server.
func (p *peers) expects(endpoint string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	comes, known := p.expected[endpoint]
	return comes || !known
}

func (p *peers) of(id federation.HandoffID) (of parties, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.handoffs[id]; h != nil {
		of = *h
		of.workers = slices.Clone(h.workers)
		return of, true
	}
	return parties{}, false
}

// If the step is expected, has polls the log for up to peerDelay.
func (l *Link) has(ctx context.Context, s *session, ev federation.Event) (bool, error) {
	endpoint := l.endpoint(ev.Arrival.Home)
	if endpoint == "" {
		return false, nil
	}
	for {
		shown, err := l.shows(ctx, s, ev.ID)
		switch {
		case err != nil || shown:
			return shown, err
		case !l.peers.expects(endpoint), time.Since(ev.Arrival.Received) >= peerDelay:
			l.peers.lacked(endpoint)
			return false, nil
		}
		select {
		case <-time.After(peerLook):
		case <-s.Over:
		case <-ctx.Done():
		}
	}
}

func (l *Link) shows(ctx context.Context, s *session, id federation.EventID) (bool, error) {
	looked := make(chan bool, 1)
	if !s.Post(ctx, func() { s.lookFor(id, looked) }) {
		return false, irc.Disconnected(l.cfg.Name)
	}
	select {
	case shown := <-looked:
		return shown, nil
	case <-s.Over:
	case <-ctx.Done():
	}
	return false, irc.Disconnected(l.cfg.Name)
}

var errReplaced = errors.New("replaced by another connection with the same server")

// Both ends keep the connection dialled by the end with the smaller ID.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
func (l *Link) preferred(c stream) bool { return c.dialled == (l.id < l.cfg.EndpointID) }

// An error ends the session in favour of the other connection. A losing connection is kept until
// the peer has greeted on this one, because the peer may be reachable in one direction only.
func (s *session) rival(ctx context.Context, a arrival) error {
	r := s.link.reach
	r.finish(a)
	switch {
	case a.err != nil:
		r.failed(ctx, a)
	case s.link.preferred(a.stream()):
		r.keep(a)
		return errReplaced
	case s.greeted || s.spare != nil:
		s.turnAway(ctx, a)
	default:
		s.spare = &a
	}
	return nil
}

func (s *session) turnAway(ctx context.Context, a arrival) {
	s.log.LogAttrs(ctx, slog.LevelInfo, "second connection of the peer closed", slog.Bool("dialled", a.way.dialled))
	s.Running.Go(func() { _ = a.conn.Close() })
	s.link.reach.try(ctx, &s.link.reach.listen)
}

func (s *session) settleSpare(ctx context.Context) {
	spare := s.spare
	s.spare = nil
	switch {
	case spare == nil:
	case s.greeted:
		s.turnAway(ctx, *spare)
	default:
		s.link.reach.keep(*spare)
	}
}
