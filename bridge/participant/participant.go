// Package participant is what an agent may ask of its gateway: to file a step, to list and read
// handoffs, to read, await and acknowledge its inbox, to look up other participants. REST, MCP
// and A2A call its functions and add no rules of their own.
//
// An [Access] belongs to one network, such as "rest", whose label is in metrics and in the steps
// that it files. The accesses of one gateway share tokens and limits: a token that one of them
// issued is valid at all of them, and an Idempotency-Key of a DID names one step at all of them.
//
// A function takes the [Caller] that the network has authenticated. The error of each function is
// a [*federation.RefusalError], a [*federation.UnavailableError], a [*bridge.ProblemError] or an
// error of the record; [ProblemOf] tells it as all networks do.
package participant

import (
	"context"
	"sync/atomic"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/bridge/stepbuilder"
	"baton/federation"
)

// Deps is what an Access works with.
type Deps struct {
	bridge.Ports

	Handoffs  Handoffs
	Inbox     Inbox
	Answers   Answers
	Steps     stepbuilder.Record
	Skills    Skills
	Callers   Callers
	Sessions  Sessions
	Venues    Venues
	Rates     Rates
	Passports Passports
	Seen      func(ctx context.Context, did federation.DID) (bool, error) // of [stepbuilder.Builder]
	Streams   *Streams                                                    // that all networks share
	Logins    credential.Addresses                                        // counts logins of each address, at all listeners
	TokenKey  []byte                                                      // secret; its holder can write tokens and challenges
}

// Access is what participants may ask through one network. Its methods may be called
// concurrently.
type Access struct {
	network string
	deps    Deps
	tokens  *credential.Tokens
	topics  *Topics[place, *page]
}

// Open returns the access of a network. It does no I/O.
func Open(network string, d Deps) *Access {
	a := &Access{network: network, deps: d, tokens: newTokens(d.TokenKey, d.Home)}
	a.topics = NewTopics(d.Wakes, a.readPage)
	return a
}

// Caller is the DID or the operator that makes a request. It is zero before the caller has
// proved anything.
type Caller struct {
	DID      federation.DID
	Operator bool
	Session  federation.Session // zero for an operator
	// Bound says that an operator acts for the DID, which has proved nothing. The gateway then
	// signs steps only for its own agents and for DIDs that are bound with vouch.
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

// Take counts one more stream unless there are limit already, and reports whether it did.
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
func (a *Access) Builder() stepbuilder.Builder {
	return stepbuilder.Builder{
		Network: a.network, ReadsInbox: true, Home: a.deps.Home, Gateway: a.deps.Gateway, Record: a.deps.Steps, Signer: a.deps.Signer,
		Evidence: a.deps.Evidence, Bindings: a.deps.Bindings, PublicURL: a.deps.PublicURL, Placers: a.deps.Venues.Placers, Seen: a.deps.Seen,
	}
}
