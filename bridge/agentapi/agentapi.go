// Package agentapi is the REST API for agents, /api/v1: handoffs and inboxes over plain
// HTTP for whoever holds no connection. What it promises is package contract, which
// each request is held to before anything here sees it.
//
// Whoever proves a DID with a key of its document is that DID here, for as long as
// its tokens last. A step is one that the caller signed, or the gateway signs for the DID
// of the token and keeps the request as evidence; the home judges both as it judges what
// comes from IRC. A handoff is shown to its parties, to members of its channel, to whom
// an open offer asks for by what they declared, and to operators; to anybody else there
// is none. What became of a step later, and that a webhook is disabled, is told as a
// notice: no step, and kept in the record to be read from a cursor on.
//
// A [Link] has no state but who waits at the moment: tokens and challenges are made with
// a key, and all else is in the record. Its routes may be called concurrently.
//
// spec: freeq-handoff-rfc "REST mirror"
package agentapi

import (
	"context"
	"iter"
	"net/http"
	"sync"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/bridge/credential"
	"baton/bridge/stepbuilder"
	"baton/federation"
)

// network is the label of this network, and the name of its only link.
const network = federation.RESTLink

// Prefix is the path below which everything is but the contract itself.
const Prefix = "/api/v1/"

// Config is the table [rest] of the configuration.
type Config struct {
	MaxWait    time.Duration // of a poll
	MaxStreams int           // watched inboxes at a time, of all callers together
}

// Record is what is read and written of the record.
type Record interface {
	stepbuilder.Record
	federation.Handoffs
	federation.Leases
	federation.Devices
	federation.Answers
	federation.Declarations
	federation.Hooks
	federation.Notices
	// Log and Receipts are those of [federation.Store], and Replay that of
	// [federation.Inboxes].
	Log(ctx context.Context, id federation.HandoffID) iter.Seq2[federation.Entry, error]
	Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error)
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	// StartSession and AdvanceSession are those of [federation.Registry].
	StartSession(ctx context.Context, s federation.Session) error
	AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error)
}

// Deps is what the API works with.
type Deps struct {
	bridge.Ports

	Record   Record
	TokenKey []byte // secret; whoever has it can write tokens and challenges
	// Proved judges whether a DID signed a message with a key that its document lists now.
	// Its error says why that is not known.
	Proved func(ctx context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error)
	// Agent returns the registered agent whose access token a request carries, or
	// [credential.ErrToken].
	Agent func(r *http.Request) (federation.Agent, error)
	// Operator reports whether the bearer of a request is an operator.
	Operator func(r *http.Request) (bool, error)
	// Passport returns the passport of a handoff.
	Passport func(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error)
	// Placers returns the links of this moment on which offers can be written.
	Placers func() []bridge.Placer
	// Member reports whether a DID is in a channel now.
	Member func(ctx context.Context, venue string, did federation.DID) bool
	// Skills returns what a DID declared that it can do, here or elsewhere.
	Skills func(ctx context.Context, did federation.DID) ([]string, error)
	// Allowance returns how many steps a DID has left.
	Allowance func(did federation.DID, now time.Time) bridge.Allowance
	// Charge counts one step of a DID that the home never saw.
	Charge func(did federation.DID, now time.Time)
	// Logins counts the challenges and tokens that each address asks for, and its other
	// attempts to log in, at all listeners.
	Logins credential.Addresses
	// Hooks makes webhooks; nil where there are none.
	Hooks bridge.Hooks

	MaxBodyBytes int64
}

// Link is the API of one gateway. It implements [bridge.Mounted].
type Link struct {
	bridge.Hearing

	cfg        Config
	deps       Deps
	challenges credential.Challenges
	tokens     *credential.Tokens
	topics     topics
	end        sync.Once
	streams    chan struct{} // one token for each watched inbox; full once Run has ended
	ended      chan struct{} // closed when Run ends, which ends all waiting
	checker    func() (*checker, error)
}

var (
	_ bridge.Mounted                 = (*Link)(nil)
	_ bridge.Hearer                  = (*Link)(nil)
	_ contract.StrictServerInterface = (*Link)(nil)
)

// Open returns the API. It does no I/O.
func Open(cfg Config, d Deps) *Link {
	return &Link{
		cfg: cfg, deps: d,
		challenges: credential.NewChallenges(d.TokenKey, network),
		tokens:     newTokens(d.TokenKey, d.Home),
		topics:     topics{of: map[federation.DID]*topic{}},
		streams:    make(chan struct{}, cfg.MaxStreams),
		ended:      make(chan struct{}),
		checker:    sync.OnceValues(newChecker), // the contract takes memory, and many gateways are never asked
	}
}

// Name implements [bridge.Link].
func (*Link) Name() string { return network }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// Carries implements [bridge.Link]: nothing is owed to those who come and read.
func (*Link) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Deliver implements [bridge.Link]. It is never called: the link carries nothing.
func (*Link) Deliver(context.Context, federation.Delivery) error { return nil }

// Run implements [bridge.Link]. The API has nobody to dial: it is up until ctx ends, and
// served by the gateway's HTTP listener.
func (l *Link) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	l.end.Do(l.finish)
	return context.Cause(ctx)
}

// finish ends all requests that wait or watch, and returns when no inbox is watched any more:
// the HTTP listener waits for its requests, but not for WebSockets.
func (l *Link) finish() {
	close(l.ended)
	for range cap(l.streams) {
		l.streams <- struct{}{}
	}
}

// builder returns who writes down the steps of callers.
func (l *Link) builder() stepbuilder.Builder {
	return stepbuilder.Builder{
		Network: network, Home: l.deps.Home, Gateway: l.deps.Gateway, Record: l.deps.Record, Kept: l.deps.Kept,
		Refer: l.deps.Refer, BoundTo: l.deps.BoundTo, PublicURL: l.deps.PublicURL, Placers: l.deps.Placers,
	}
}
