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
	"log/slog"
	"net/http"
	"time"

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

// Wakes wakes those who wait inside one gateway. Nothing durable depends on it: a
// wake-up may be lost, and whoever waits looks again by itself, later.
type Wakes interface {
	// Wake wakes all who subscribed to one of the topics. It does not block.
	Wake(topics ...string)
	// Subscribe returns a channel that holds one token once the topic was woken,
	// until stop is called.
	Subscribe(topic string) (wake <-chan struct{}, stop func())
}

// OutboxTopic is the topic of a link whose feed has something new.
func OutboxTopic(link string) string { return "feed." + link }

// RelayTopic is the topic of what is owed to other registries.
const RelayTopic = "relays"

// InboxTopic is the topic of an agent of this gateway's registry that has a new
// message.
func InboxTopic(handle string) string { return "inbox." + handle }

// DIDTopic is the topic of a DID whose inbox has something new.
func DIDTopic(did federation.DID) string { return "did." + string(did) }

// Gateway is all that a link may ask of the rest of the program.
type Gateway interface {
	// Submit judges one inbound step and files it. When it returns nil the step is
	// on disk. A [*federation.RefusalError] is final, but for one that Waits, whose step
	// is on disk too and judged again by itself; any other error wrapping
	// [*federation.UnavailableError] means ask again. It writes the log line and
	// counts the event; what becomes of the refusal on the wire is the link's.
	//
	// It waits for no host: the key of the step has to be at hand, which is what FetchKey is
	// for. A step whose key is not at hand waits in the record. Where ctx ends before the
	// step was judged, nothing is filed, and the error is that of ctx.
	Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error)
	// FetchKey looks up the key of a step and waits for it, for a second at most and until
	// ctx ends. It does nothing where the key is at hand. A caller that bounds how many
	// steps are judged at a time calls it before the step counts.
	FetchKey(ctx context.Context, ev federation.Event)
	// View returns the zero View for a handoff that is not known.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Name returns what people call a DID: an agent's handle, the nick of an IRC
	// user, else the DID cut short.
	Name(ctx context.Context, did federation.DID) string
	// Same reports whether two DIDs are one agent's.
	Same(ctx context.Context, a, b federation.DID) bool
	// Place returns where an offer that does not come from IRC is to be written
	// there, and in which dialect: private to the nick that last signed as the
	// recipient, or is logged in to its account, while that is online, else in a channel of its link. For an open
	// offer, which has no recipient, it is the channel if some link lists that, else
	// the first one of the first link. It returns the zero Place where no link
	// reaches the recipient.
	Place(ctx context.Context, from, to federation.DID, channel string) (federation.Place, federation.Dialect, error)
}

// OnceShower is a [Link] that shows something once at most, such as a line for
// people, and knows by [federation.Delivery.Attempt] whether it may have. Each of
// its attempts is on disk before Deliver is called, the first one with the step
// itself; another link's are counted when they failed.
type OnceShower interface {
	Link
	// ShowsOnce reports whether this delivery shows something once at most.
	ShowsOnce(d federation.Delivery) bool
}

// Returner is a [Link] that learns that its peer is back before it dials.
type Returner interface {
	Link
	// Back returns a channel that holds a token once the peer was heard.
	Back() <-chan struct{}
}

// Paced is a [Link] whose peer says how much it takes.
type Paced interface {
	Link
	// PerMinute returns how many rows a minute the peer takes; 0 is any number.
	PerMinute() int
}

func perMinute(link Link) int {
	if paced, ok := link.(Paced); ok {
		return paced.PerMinute()
	}
	return 0
}

// Recorder is a [Link] with tables of its own in the record. What it writes there about a
// step is filed with the step itself, and waits in no feed.
type Recorder interface {
	Link
	// Effects returns what is written to the link's tables with a step that is about to be
	// filed, and the topics to wake once it is. Its error keeps the step from being filed
	// now.
	Effects(ctx context.Context, d federation.Delivery) (effects []federation.Effect, topics []string, err error)
}

// Placer is a [Link] on which offers can be written that do not come from there.
type Placer interface {
	Link
	// Channels returns the configured channels as venues, the first for offers that
	// name none.
	Channels() []string
	// Dialect is the one of the offers that enter here from networks without tags.
	Dialect() federation.Dialect
	// Online reports whether the user who last signed as a DID is there, under
	// whatever nick. The binding is what the record knows of it. It may be called
	// while Run runs.
	Online(ctx context.Context, b federation.Binding) bool
}

// Gatherer is a [Placer] that knows who is in its channels.
type Gatherer interface {
	Placer
	// Present reports whether somebody who proved a DID is in a channel now. It may be
	// called while Run runs.
	Present(ctx context.Context, venue string, did federation.DID) bool
}

// Dismisser is a [Link] whose clients are connected to this gateway itself.
type Dismisser interface {
	Link
	// Dismiss ends the connections of the clients that a condition names. It may be called
	// while Run runs, and does not wait for them.
	Dismiss(blocked func(federation.Source) bool)
}

// Replayer is a [Placer] that brings people what is in their inboxes, and hears from
// them what they have. What it delivers to a channel says nothing of that.
type Replayer interface {
	Placer
	// Replays does nothing: a link is one or is not.
	Replays()
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
	// Limits returns what holds now: it may change while the gateway runs.
	Limits func() Limits
	Wakes  Wakes

	// Blocked returns a [*federation.RefusalError] for a source that an operator blocked,
	// and another error where the record cannot tell now. Nil blocks nothing; links call
	// [Ports.CheckBlocked].
	Blocked func(ctx context.Context, s federation.Source) error

	// Bound returns the binding of a name on a network, or [federation.ErrNotFound],
	// and BoundTo those of a DID.
	Bound   func(ctx context.Context, network, name string) (federation.BoundName, error)
	BoundTo func(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
	// Seen returns where somebody last signed a step, or [federation.ErrNotFound].
	Seen func(ctx context.Context, did federation.DID) (federation.Binding, error)

	// What a gateway needs to vouch for others' steps.

	// Own returns the key with which the home signs its own steps now.
	Own       func() federation.SigningKey
	PublicURL string // of this gateway, without a path: evidence is below it
	// Kept returns the key that the gateway keeps for somebody, the same one each
	// time. Names are "airc:" and a handle for an agent, "person:" and a DID for
	// anybody else.
	Kept func(name string) federation.SigningKey
	// Keep files the evidence behind a rendition. When it returns nil that is on
	// disk.
	Keep func(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error

	// Refer stores the inline context of a step here and returns the step with a
	// reference in its place, the same one each time for a handoff that is on record; a
	// reference to what is stored here gets its hash. Where the context is none of these,
	// or there is no room for it, the step is returned as it is. Its error is that of the
	// record.
	Refer func(ctx context.Context, ev federation.Event) (federation.Event, error)
	// Store keeps what somebody hands in for steps to refer to. Its errors are
	// [federation.ErrBlobTooLarge], [federation.ErrBlobQuota] and that of the record.
	Store func(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error)
}

// CheckBlocked returns a [*federation.RefusalError] for a source that an operator blocked.
// Gateway.Submit checks each step by itself. A link checks connections, logins and all
// other requests, before it looks for a key. It reads the record only for a source with
// DIDs or handles. Each refusal is counted.
func (p Ports) CheckBlocked(ctx context.Context, s federation.Source) error {
	if p.Blocked == nil {
		return nil
	}
	return p.Blocked(ctx, s)
}

// Limits are what a link lets in before anybody looks at a signature. Zero means no
// limit; each rate is a bucket that starts full with one period's worth.
type Limits struct {
	UserEventsPerMinute int // of one user on the other side; what is more is refused
	LinkEventsPerSecond int // of the whole link; above it reading is slowed, and nobody refused
	// ContextBytes is how large a context may be that is stored here.
	ContextBytes int64
	// MaxDeadline is how far from now the deadline of an offer may be; 0 for any.
	MaxDeadline time.Duration
	// Connections that a listener keeps at a time: of one address ([Network]), and of all
	// clients that have not registered yet.
	ConnectionsPerAddress, UnregisteredConnections int
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
