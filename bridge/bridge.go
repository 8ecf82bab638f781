// Package bridge holds the networks, and the interfaces through which they meet
// the rest: a network opens a [Link]; a Link calls its [Gateway] with what came
// in; a [Feed] hands it what the record still owes to it; a [Supervisor] keeps
// both running.
//
// Each network has a folder of its own below this one, with its Config, an Open
// that does no I/O, and an edge.go, the one place where our errors become its
// own.
package bridge

import (
	"context"
	"fmt"

	"baton/federation"
)

// Link is one configured peer of a network, connected or not. One goroutine owns
// its state.
type Link interface {
	// Name is unique among all links: the label in logs, metrics and feeds.
	Name() string
	// Network is the label of the network in metrics, such as "spanningtree".
	Network() string
	// Carries tells whether a filed step is owed to this link. The view is that
	// after the step. It does not depend on the connection, and may be called
	// while Run runs.
	Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error)
	// Run dials or accepts, serves until ctx ends or the connection breaks, and
	// returns why. It calls up once the peer has authenticated and both bursts are
	// over.
	Run(ctx context.Context, up func()) error
	// Deliver hands one row of the feed to the peer and may be called while Run
	// runs, concurrently for different handoffs. It blocks until the peer has it,
	// and then returns nil; it returns an error wrapping
	// [*federation.UnavailableError] to be called again later, and a
	// [*federation.RefusalError] never to be called again with this row.
	Deliver(ctx context.Context, d federation.Delivery) error
}

// OutboxTopic is the topic of a link whose feed has something new.
func OutboxTopic(link string) string { return "feed." + link }

// RelayTopic is the topic of what is owed to other registries.
const RelayTopic = "relays"

// InboxTopic is the topic of an agent of this gateway's registry that has a new
// message.
func InboxTopic(handle string) string { return "inbox." + handle }

// RulingTopic is the topic of a home whose ruling a step waits for.
func RulingTopic(home federation.HomeID) string { return "ruling." + string(home) }

// DIDTopic is the topic of a DID whose inbox has something new.
func DIDTopic(did federation.DID) string { return "did." + string(did) }

// KeyError is one mistake in a network's table of the configuration.
type KeyError struct {
	Key string // within the table, such as "channels"
	Why string
}

// Error implements error.
func (e *KeyError) Error() string { return e.Key + ": " + e.Why }

// Links is all links of one gateway. It implements [federation.Routes].
type Links []Link

// Route implements [federation.Routes].
func (l Links) Route(ctx context.Context, ev federation.Event, after federation.View) (federation.Fanout, error) {
	var owed federation.Fanout
	entry := federation.Entry{Event: ev, Version: after.Version, State: after.State, Filed: after.Moved}
	d := federation.Delivery{Entry: entry, View: after}
	for _, link := range l {
		if recorder, ok := link.(Recorder); ok {
			effects, topics, err := recorder.Effects(ctx, d)
			if err != nil {
				return federation.Fanout{}, fmt.Errorf("write for %s: %w", link.Name(), err)
			}
			owed.Effects, owed.Topics = append(owed.Effects, effects...), append(owed.Topics, topics...)
		}
		carries, err := link.Carries(ctx, ev, after)
		if err != nil {
			return federation.Fanout{}, err
		}
		if !carries {
			continue
		}
		owed.Links = append(owed.Links, link.Name())
		if shower, ok := link.(OnceShower); ok && shower.ShowsOnce(d) {
			owed.Once = append(owed.Once, link.Name())
		}
	}
	return owed, nil
}
