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
	"log/slog"
	"net/http"
	"slices"

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

// Mounted is a [Link] that is served by the gateway's HTTP listener.
type Mounted interface {
	Link
	// Mount registers the link's routes.
	Mount(mux *http.ServeMux)
}

// Gateway is all that a link may ask of the rest of the program.
type Gateway interface {
	// Submit judges one inbound step and files it. When it returns nil the step is
	// on disk. A [*federation.RefusalError] is final; an error wrapping
	// [*federation.UnavailableError] means ask again. It writes the log line and
	// counts the event; what becomes of the refusal on the wire is the link's.
	Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error)
	// View returns the zero View for a handoff that is not known.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Name returns what people call a DID: an agent's handle, the nick of an IRC
	// user, else the DID cut short.
	Name(ctx context.Context, did federation.DID) string
}

// Ports is what every network is given when it is opened.
type Ports struct {
	Home    federation.HomeID
	Gateway Gateway
	Metrics *Metrics
	Log     *slog.Logger
	// Secret reads a secret file that the configuration names. Its error says what
	// is wrong with the file.
	Secret func(file string) (string, error)
}

// KeyError is one mistake in a network's table of the configuration.
type KeyError struct {
	Key string // within the table, such as "channels"
	Why string
}

// Error implements error.
func (e *KeyError) Error() string { return e.Key + ": " + e.Why }

// Links is all links of one gateway. It implements [federation.Routes].
type Links []Link

// Owed returns the names of the links that carry a step.
func (l Links) Owed(ctx context.Context, ev federation.Event, after federation.View) ([]string, error) {
	var names []string
	for _, link := range l {
		carries, err := link.Carries(ctx, ev, after)
		if err != nil {
			return nil, err
		}
		if carries {
			names = append(names, link.Name())
		}
	}
	return slices.Clip(names), nil
}
