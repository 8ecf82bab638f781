package freeq

import (
	"context"
	"sync"
	"time"

	"baton/bridge/irc"
	"baton/federation"
)

// peerDelay is how long a step of another freeq server is left to that server, while it is not
// known whether the two are peered. Servers that are need a fraction of a second where they
// have the key of the signer, and fetch it for five seconds at most. The log is looked at in
// intervals of peerLook.
const (
	peerDelay = 5 * time.Second
	peerLook  = 500 * time.Millisecond
)

// maxOrigins is how many handoffs are remembered with their home, at some 150 bytes each.
const maxOrigins = 1 << 14

// maxPeered is how many other servers are remembered: a server may name any number in its log.
const maxPeered = 1 << 10

// peers is what the log of a server shows of other servers: which it is peered with, and from
// which of them it has each handoff. A server takes the word of that one alone. It outlives
// the connection, and may be used concurrently.
type peers struct {
	mu      sync.Mutex
	peered  map[string]bool // by endpoint id: true where the log has rows of it, false where it lacked one
	origins map[federation.HandoffID]string
}

func newPeers() *peers {
	return &peers{peered: map[string]bool{}, origins: map[federation.HandoffID]string{}}
}

// saw notes a row of the log.
func (p *peers) saw(row replayed) {
	id, err := federation.ParseEventID(row.EventID)
	if err != nil || row.Origin == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.peered) >= maxPeered {
		clear(p.peered)
	}
	p.peered[row.Origin] = true
	if row.Subject != "" {
		return
	}
	if len(p.origins) >= maxOrigins {
		clear(p.origins) // the log is read again with the next connection
	}
	p.origins[id] = row.Origin
}

// lacked notes that the log has no row for a step of another server, which had the time to
// send it.
func (p *peers) lacked(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.peered[endpoint] {
		p.peered[endpoint] = false
	}
}

// with reports whether the server is peered with another one, and whether that is known.
func (p *peers) with(endpoint string) (peered, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peered, known = p.peered[endpoint]
	return peered, known
}

// origin returns from which server this one has a handoff, "" where that is not known.
func (p *peers) origin(id federation.HandoffID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.origins[id]
}

// sender returns the endpoint id of the other freeq server from which a step came, "" for none,
// and whether this server has the step from there.
func (l *Link) sender(ev federation.Event) (endpoint string, has, known bool) {
	if endpoint = l.endpoint(ev.Arrival.Home); endpoint == "" {
		return "", false, true
	}
	has, known = l.peers.with(endpoint)
	return endpoint, has, known
}

// has reports whether the server has a step from another freeq server. Where it is not known
// whether the two are peered, it gives the other server time and looks at the log. It blocks
// until then.
func (l *Link) has(ctx context.Context, s *session, ev federation.Event) (bool, error) {
	for {
		endpoint, has, known := l.sender(ev)
		if known {
			return has, nil
		}
		late := time.Since(ev.Arrival.Received) >= peerDelay
		shown, err := l.shows(ctx, s, ev.ID)
		switch {
		case err != nil || shown:
			return shown, err
		case late:
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
