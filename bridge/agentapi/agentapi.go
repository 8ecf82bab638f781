// Package agentapi is the REST API for agents, /api/v1: handoffs and inboxes over plain
// HTTP, for agents without a connection. Package contract is its contract. The API checks each
// request against that first.
//
// A caller that proves a DID with a key of its document acts as that DID while its tokens
// last. The caller signs a step itself, or the gateway signs it for the DID of the token and
// keeps the request as evidence; the home judges both as it judges steps from IRC. The API
// shows a handoff to its parties, to members of its channel, to DIDs that declared what an
// open offer asks for, and to operators. To other callers it does not exist. A notice tells an
// agent later what became of its step, or that a webhook is disabled; the record keeps notices,
// and clients read them from a cursor on.
//
// A [Link] keeps in memory only which requests wait: it makes tokens and challenges with a
// key, and the rest is in the record. Its routes may be called concurrently.
//
// spec: freeq-handoff-rfc "REST mirror"
package agentapi

import (
	"context"
	"sync"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/bridge/participant"
)

// network is the label of this network, and the name of its only link.
const network = "rest"

// Prefix is the path below which everything is but the contract itself.
const Prefix = participant.Path

// Deps is what the API works with.
type Deps struct {
	participant.Deps

	Leases   Leases
	Notices  Notices
	Webhooks Webhooks
	Hooks    bridge.Webhooks // creates webhooks; nil where the gateway has none
}

// Link is the API of one gateway. It implements [bridge.Mounted].
type Link struct {
	*participant.HTTPLink

	cfg        Config
	deps       Deps
	access     *participant.Access
	challenges credential.Challenges
	topics     *participant.Topics[place, *page]
	end        sync.Once
	streams    chan struct{} // one token for each inbox watched here; full once Run has ended
}

var (
	_ bridge.Mounted       = (*Link)(nil)
	_ bridge.Authenticator = (*Link)(nil)
)

// Open returns the API. It does no I/O.
func Open(cfg Config, d Deps) *Link {
	l := &Link{
		HTTPLink: participant.NewHTTPLink(network),
		cfg:      cfg, deps: d,
		access:     participant.Open(network, d.Deps),
		challenges: credential.NewChallenges(d.TokenKey, network),
		streams:    make(chan struct{}, cfg.MaxStreams),
	}
	l.topics = participant.NewTopics(d.Wakes, l.read)
	return l
}

// Run implements [bridge.Link]. It ends all requests that wait or watch, and returns when this API
// watches no inbox any more: the HTTP listener waits for its requests, but not for WebSockets.
func (l *Link) Run(ctx context.Context, up func()) error {
	err := l.HTTPLink.Run(ctx, up)
	l.end.Do(func() {
		for range cap(l.streams) {
			l.streams <- struct{}{}
		}
	})
	return err
}
