package participant

import (
	"context"
	"sync"

	"baton/bridge"
	"baton/federation"
)

// HTTPLink is what links have in common whose participants call the gateway over HTTP. Such a
// link dials no peer and carries no step: its participants read their inboxes. The name of the
// link is that of its network.
type HTTPLink struct {
	bridge.Hearing

	network string
	once    sync.Once
	ended   chan struct{}
}

var (
	_ bridge.Hearer      = (*HTTPLink)(nil)
	_ bridge.InboxReader = (*HTTPLink)(nil)
)

// NewHTTPLink returns the link of a network.
func NewHTTPLink(network string) *HTTPLink {
	return &HTTPLink{network: network, ended: make(chan struct{})}
}

// Name implements [bridge.Link].
func (l *HTTPLink) Name() string { return l.network }

// Network implements [bridge.Link].
func (l *HTTPLink) Network() string { return l.network }

// ReadsInbox implements [bridge.InboxReader].
func (*HTTPLink) ReadsInbox() {}

// Carries implements [bridge.Link]: participants read their inboxes.
func (*HTTPLink) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Deliver implements [bridge.Link]. It is never called: the link carries nothing.
func (*HTTPLink) Deliver(context.Context, federation.Delivery) error { return nil }

// Run implements [bridge.Link]: the link is up until ctx ends, and the HTTP listener of the
// gateway serves it.
func (l *HTTPLink) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	l.once.Do(func() { close(l.ended) })
	return context.Cause(ctx)
}

// Ended is closed when Run ends. Requests that wait or watch end with it.
func (l *HTTPLink) Ended() <-chan struct{} { return l.ended }
