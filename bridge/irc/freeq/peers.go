package freeq

import (
	"context"
	"slices"
	"sync"
	"time"

	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

// peerDelay is how long a step of another freeq server is left to that server, if the two were
// peered when the last step came. Servers that are need a fraction of a second if they have the
// key of the signer, and fetch it for five seconds at most. The log is looked at in intervals of
// peerLook.
const (
	peerDelay = 5 * time.Second
	peerLook  = 500 * time.Millisecond
)

// maxKnown bounds the handoffs whose parties are remembered, at some 400 bytes each, and
// maxWorkers the parties of one.
const (
	maxKnown   = 1 << 14
	maxWorkers = 64
)

// maxPeered is how many other servers are remembered: a server may name any number in its log.
const maxPeered = 1 << 10

// parties is what the log of a server shows of one handoff: the server that opened it, whose word
// alone counts there, and the DIDs that the server takes its steps from.
type parties struct {
	origin           string // endpoint id
	offerer, offeree federation.DID
	workers          []federation.DID // that accepted, claimed or bid
}

// peers is what the log of a server shows of other servers and of the parties of handoffs. It
// outlives the connection, and may be used concurrently.
//
// Whether two servers are peered is never known: the operators can end it at any time. It is an
// expectation, from the last step, that only determines how long a step is waited for.
type peers struct {
	mu       sync.Mutex
	expected map[string]bool // by endpoint id; absent if no step of it came yet
	handoffs map[federation.HandoffID]*parties
}

func newPeers() *peers {
	return &peers{expected: map[string]bool{}, handoffs: map[federation.HandoffID]*parties{}}
}

// saw notes a step of the log. One that was seen before says nothing about the peering now.
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

// open notes an offer.
func (p *peers) open(id federation.HandoffID, of *parties) {
	if p.handoffs[id] != nil {
		return // read again
	}
	if len(p.handoffs) >= maxKnown {
		clear(p.handoffs) // the log is read again with the next connection
	}
	p.handoffs[id] = of
}

// expect notes whether the next step of another server is expected to come from there.
func (p *peers) expect(endpoint string, comes bool) {
	if len(p.expected) >= maxPeered {
		clear(p.expected)
	}
	p.expected[endpoint] = comes
}

// lacked notes that the log has no row for a step of another server.
func (p *peers) lacked(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expect(endpoint, false)
}

// expects reports whether a step of another server is worth a wait. It is for the first one.
func (p *peers) expects(endpoint string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	comes, known := p.expected[endpoint]
	return comes || !known
}

// of returns the parties of a handoff that the log has shown.
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

// has reports whether the server has a step from another freeq server. If it is expected to, it
// gives the other server time and looks at the log again. It blocks until then.
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

// shows looks for a step in the log of the server.
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
