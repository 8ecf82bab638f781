// Package participant implements the requests of agents to their gateway: to file a step, to list
// and read handoffs, to read, await and acknowledge the inbox, to look up other participants.
// REST, MCP and A2A call its functions and add no rules.
//
// A [Service] belongs to one network, such as "rest", whose label is in metrics and in the steps
// that it files. The services of one gateway share tokens and limits: a token from one of them is
// valid at all of them, and an Idempotency-Key of a DID identifies one step at all of them.
//
// A function takes the [Caller] authenticated by the network. The error of each function is a
// [*federation.RefusalError], a [*federation.UnavailableError], a [*bridge.ProblemError] or an
// error of the record; [ProblemOf] converts it to the form for all networks.
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
	Inbox     Inbox // of Record
	Callers   Callers
	Venues    Venues
	Rates     Rates
	Passports Passports
	Seen      func(ctx context.Context, did federation.DID) (bool, error) // of [stepbuilder.Builder]
	Streams   *Streams                                                    // shared by all networks
	Logins    credential.Addresses                                        // counts logins of each address, at all listeners
	Guesses   credential.Guesses                                          // counts wrong login codes, at all listeners
	TokenKey  []byte                                                      // secret; its holder can write tokens and challenges
}

// Service serves the requests of participants of one network. Its methods may be
// called concurrently.
type Service struct {
	network string
	deps    Deps
	tokens  *credential.Tokens
	topics  *Topics[place, *page]
	kinds   func() lifecycle.Kinds // parsed at the first use
}

// Open returns the access of a network. It does no I/O.
func Open(network string, d Deps) *Service {
	a := &Service{network: network, deps: d, tokens: newTokens(d.TokenKey, d.Home), kinds: sync.OnceValue(lifecycle.Shipped)}
	a.topics = NewTopics(d.PubSub, a.readPage)
	return a
}

// Caller is the DID or the operator that makes a request. It is zero for an unauthenticated
// caller.
type Caller struct {
	DID      federation.DID
	Operator bool
	Session  federation.Session // zero for an operator
	// Bound reports that an operator acts for the DID, which is not proved. The gateway then signs
	// steps only for its own agents and for DIDs bound with vouch.
	Bound bool
}

// Person returns the DID of the caller, and refuses an operator, which has none.
func (c Caller) Person() (federation.DID, error) {
	if c.DID == "" {
		return "", Forbidden("this is for agents: an operator has no DID, and asks the operator API")
	}
	return c.DID, nil
}

// Streams counts the requests that watch an inbox, of all networks together. The zero Streams is
// ready. It may be used concurrently.
type Streams struct{ open atomic.Int64 }

// Take counts one more stream unless the limit is reached, and reports whether it did.
func (s *Streams) Take(limit int) bool {
	if s.open.Add(1) <= int64(limit) {
		return true
	}
	s.open.Add(-1)
	return false
}

// Leave ends a stream that Take counted.
func (s *Streams) Leave() { s.open.Add(-1) }

// Builder returns the builder of the steps of callers.
func (a *Service) Builder() stepbuilder.Builder {
	return stepbuilder.Builder{
		Network: a.network, ReadsInbox: true, Home: a.deps.Home, Gateway: a.deps.Gateway, Record: a.deps.Record, Signer: a.deps.Signer,
		Evidence: a.deps.Evidence, Bindings: a.deps.Bindings, PublicURL: a.deps.PublicURL, ChannelLinks: a.deps.Venues.ChannelLinks, Seen: a.deps.Seen,
	}
}

// Inbox reads the inboxes of the record, and stores the positions of their
// devices.
type Inbox interface {
	// Replay returns up to limit entries of an inbox after a cursor, oldest first. It returns a
	// [*federation.CursorError] for a cursor that this inbox never issued.
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	// Devices returns the devices of a DID by name.
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	// Advance acknowledges all entries up to a cursor, and stores the position of the device. It
	// returns [federation.ErrTooManyDevices], or a [*federation.CursorError] for a cursor that
	// this inbox never issued.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
}

// Callers authenticates callers by tokens issued by other parts of the gateway. It may block on
// the record.
type Callers interface {
	// Authenticate returns the participant of another link's token in a request, and false without
	// a valid token.
	Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error)
	// Operator reports whether a request carries the token of an operator. Its error wraps
	// [*federation.UnavailableError] if the answer is unknown now.
	Operator(r *http.Request) (bool, error)
}

// Venues returns the current links and channels. It does not block.
type Venues interface {
	// ChannelLinks returns the links on which an offer can be written.
	ChannelLinks() []bridge.ChannelLink
	// Present reports whether a DID is in a channel now.
	Present(ctx context.Context, venue string, did federation.DID) bool
	// Statuses returns the links, in the order of the configuration.
	Statuses() []bridge.LinkStatus
}

// Rates counts the steps of DIDs, in the buckets of the home. It does not block.
type Rates interface {
	// Left returns the remaining steps of a DID.
	Left(did federation.DID, now time.Time) bridge.Allowance
	// Charge counts one step that the home does not judge.
	Charge(did federation.DID, now time.Time)
}

// Passports makes passports of handoffs.
type Passports interface {
	// Passport returns the passport of a handoff. It reads the record and signs. Its error
	// may be a [*bridge.ProblemError].
	Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error)
}
