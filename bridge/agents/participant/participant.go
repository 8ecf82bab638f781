// Package participant implements the requests of agents to their gateway. REST, MCP and A2A call it and add
// no rules.
//
// A [Service] belongs to one network, such as "rest", and labels metrics and steps with its name. The
// services of one gateway share tokens and limits. A token from one of them is valid at all of them,
// and an Idempotency-Key of a DID identifies one step at all of them.
//
// A function takes the [Caller] authenticated by the network. It returns a [*federation.RefusalError],
// a [*federation.UnavailableError], a [*bridge.ProblemError] or an error of the record; [ProblemOf]
// converts each to the form for all networks.
package participant

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Deps are the dependencies of a Service.
type Deps struct {
	bridge.Ports

	Record    registry.Bound
	Inbox     Inbox
	Callers   Callers
	Venues    Venues
	Rates     Rates
	Passports Passports
	Seen      func(ctx context.Context, did federation.DID) (bool, error) // of [stepbuilder.Builder]
	Streams   *Streams                                                    // shared by all networks
	Logins    credential.Addresses                                        // logins per address, across all listeners
	Guesses   credential.Guesses                                          // wrong login codes, across all listeners
	TokenKey  []byte                                                      // secret
}

// Service serves the participants of one network. It is safe for concurrent use.
type Service struct {
	network string
	deps    Deps
	tokens  *credential.Tokens
	topics  *Topics[place, *page]
	kinds   func() lifecycle.Kinds // parsed at first use
}

// Open returns the service of a network. It does no I/O.
func Open(network string, d Deps) *Service {
	a := &Service{network: network, deps: d, tokens: newTokens(d.TokenKey, d.Home), kinds: sync.OnceValue(lifecycle.Shipped)}
	a.topics = NewTopics(d.PubSub, a.readPage)
	return a
}

// Caller is the DID or the operator that makes a request. The zero Caller is unauthenticated.
type Caller struct {
	DID      federation.DID
	Operator bool
	Session  federation.Session // zero for an operator
	// Bound reports that an operator acts for the DID, which is not proved. The gateway then signs steps
	// only for its own agents and for DIDs bound with vouch.
	Bound bool
}

// Person returns the caller's DID. It refuses an operator.
func (c Caller) Person() (federation.DID, error) {
	if c.DID == "" {
		return "", Forbidden("this route is for agents: an operator has no DID; use the operator API")
	}
	return c.DID, nil
}

// Streams counts the requests that watch an inbox over all networks. It is safe for concurrent use.
type Streams struct{ open atomic.Int64 }

// Take returns false if the limit is reached.
func (s *Streams) Take(limit int) bool {
	if s.open.Add(1) <= int64(limit) {
		return true
	}
	s.open.Add(-1)
	return false
}

// Leave ends a stream counted by Take.
func (s *Streams) Leave() { s.open.Add(-1) }

// Builder returns the builder of the steps of callers.
func (a *Service) Builder() stepbuilder.Builder {
	return stepbuilder.Builder{
		Network: a.network, ReadsInbox: true, Home: a.deps.Home, Gateway: a.deps.Gateway, Record: a.deps.Record, Signer: a.deps.Signer,
		Evidence: a.deps.Evidence, Bindings: a.deps.Bindings, PublicURL: a.deps.PublicURL, ChannelLinks: a.deps.Venues.ChannelLinks, Seen: a.deps.Seen,
	}
}

// Inbox reads inboxes of the record, and stores the positions of their devices.
type Inbox interface {
	// Replay returns up to limit entries after a cursor, oldest first, or a [*federation.CursorError].
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	// Advance acknowledges all entries up to a cursor, and stores the device's position. It returns
	// [federation.ErrTooManyDevices] or a [*federation.CursorError].
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
}

// Callers authenticates tokens issued by other parts of the gateway. It may block on the record.
type Callers interface {
	// Authenticate returns the participant of another link's token, and false without a valid token.
	Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error)
	// Operator reports whether a request has an operator's token. Its error wraps
	// [*federation.UnavailableError].
	Operator(r *http.Request) (bool, error)
}

// Venues returns the current links and channels. It does not block.
type Venues interface {
	// ChannelLinks returns the links that can carry an offer to a channel.
	ChannelLinks() []bridge.ChannelLink
	Present(ctx context.Context, venue string, did federation.DID) bool
	// Statuses returns the links in configuration order.
	Statuses() []bridge.LinkStatus
}

// Rates counts the steps of DIDs against the rate limits of the home. It does not block.
type Rates interface {
	Left(did federation.DID, now time.Time) bridge.Allowance
	// Charge counts one step that the home does not judge.
	Charge(did federation.DID, now time.Time)
}

// Passports makes passports of handoffs.
type Passports interface {
	// Passport reads the record and signs. Its error may be a [*bridge.ProblemError].
	Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error)
}
