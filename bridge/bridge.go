// Package bridge is the base of all networks: links, their abilities and ports, and their
// supervisor.
//
// A [Network], returned by the folder of the network, opens a [Link] for each table of the
// configuration, and gives it [Ports]. A link reads steps from its peer and submits them to its
// [Gateway]. A [Supervisor] dials the link again after a loss, and delivers the outbox of the
// link while it is up. Optional functions of a link are abilities: small interfaces such as
// [ChannelLink] or [Mounted].
//
// Unless its comment states otherwise, a method with a context may block on the record and returns
// its errors, and a method without a context does not block.
//
// The package is independent of any network. In each network's folder, only edge.go converts errors
// of the gateway to errors of the network.
package bridge

import (
	"context"
	"errors"

	"github.com/baton-gateway/baton/federation"
)

// Link is one configured peer of a network, connected or not. One goroutine owns its state.
type Link interface {
	// Name is unique among all links. It labels logs, metrics and the outbox.
	Name() string
	// Network is the label of the network in metrics, such as "spanningtree".
	Network() string
	// Carries reports whether a filed step is delivered to this link, whether connected or not. The
	// view is the view after the step. Carries may block on the record, returns its error, and may
	// be called while Run runs.
	Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error)
	// Run dials or accepts a connection, serves it until ctx ends or the connection breaks, and
	// returns the reason. It calls up after the peer has authenticated and both bursts are over.
	Run(ctx context.Context, up func()) error
	// Deliver makes one delivery. It blocks until the peer has the step, and then returns nil. After
	// an error that wraps [*federation.UnavailableError], Deliver is called again later, and before
	// the later deliveries of the handoff unless the error is a delivery.AbsentError. After a
	// [*federation.RefusalError] this delivery is never repeated. Deliver may be called while Run
	// runs, and concurrently for different handoffs.
	Deliver(ctx context.Context, d federation.Delivery) error
}

// Topics of [PubSub].
const (
	// RelayTopic is the topic of new deliveries to the peers of a [Peered] link.
	RelayTopic = "relays"
	// WebhooksTopic is the topic of new deliveries to webhooks.
	WebhooksTopic = "hooks"
)

// OutboxTopic is the topic of new deliveries in the outbox of a link.
func OutboxTopic(link string) string { return "feed." + link }

// InboxTopic is the topic of new messages for an agent of the gateway's registry.
func InboxTopic(handle string) string { return "inbox." + handle }

// RulingTopic is the topic of steps that wait for the ruling of a home.
func RulingTopic(home federation.HomeID) string { return "ruling." + string(home) }

// DIDTopic is the topic of new steps in the inbox of a DID.
func DIDTopic(did federation.DID) string { return "did." + string(did) }

// SessionsTopic is the topic for ended sessions of a participant.
func SessionsTopic(participant string) string { return "sessions." + participant }

// HandoffTopic is the topic of new steps of a handoff.
func HandoffTopic(id federation.HandoffID) string { return "handoff." + id.String() }

// KeyError is one mistake in a network's table of the configuration.
type KeyError struct {
	Key string // within the table, such as "channels"
	Why string
}

func (e *KeyError) Error() string { return e.Key + ": " + e.Why }

// Network describes a foreign protocol: how its links are configured and opened.
type Network struct {
	Name  string
	Table string // such as "irc.spanningtree"
	// Many allows several tables, each for one link.
	Many bool
	// Reference is the network's part of the reference file: each key of the table with its
	// default and its purpose. A repeatable table is commented out.
	Reference string
	// Open returns the link of a table, or [ErrOff] if the table turns its network off. It reads
	// secret files and does no other I/O. Its error joins one [*KeyError] for each mistake in the
	// table. A check of the configuration also calls Open, with Secrets as the only interface, so
	// Open must not use other interfaces.
	Open func(t Table, p Ports) (Link, error)
}

// ErrOff is returned by Open of a [Network] for a table that turns the network off.
var ErrOff = errors.New("turned off")

// Table is one table of the configuration.
type Table interface {
	// Decode writes the table into the struct behind a pointer. The "toml" tags of its fields are
	// the keys; fields without a key in the table keep their value. Decode returns no error,
	// because the file collects unknown keys and values of the wrong type as mistakes.
	Decode(into any)
}
