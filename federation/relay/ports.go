package relay

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Network is the label of other homes in metrics, logs and arrivals.
const Network = "home"

// Record is the part of the record for the exchange between homes. [store.Record] documents the
// methods.
type Record interface {
	// View returns the view of a handoff, or the zero View.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Log returns the steps of a handoff after a version, in order. Version 0 returns all steps.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Evidence returns the original behind a vouched step, or [federation.ErrNotFound].
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// ListPending returns up to limit steps pending the ruling of a home, oldest first.
	ListPending(ctx context.Context, home federation.HomeID, limit int) ([]federation.Pending, error)
	// Chain returns the [federation.Link] after a step, or [federation.ErrNotFound].
	Chain(ctx context.Context, id federation.HandoffID, version federation.Version) ([32]byte, error)
	// RulingOn returns the ruling by which a step of another home was filed, or
	// [federation.ErrNotFound].
	RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error)
	// Pruned reports whether a handoff was pruned, and its IDs are kept.
	Pruned(ctx context.Context, id federation.HandoffID) (bool, error)
	// Forked reports whether there is proof that a handoff has two histories.
	Forked(ctx context.Context, id federation.HandoffID) (bool, error)
	// Shared returns up to limit handoffs after the given one, ordered by ID, with a step delivered
	// to a home. An attempt without an answer counts too. A step of the outbox
	// [federation.UnroutedLink] counts as delivered to the mailbox homes of the parties.
	Shared(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error)
	// OfHome returns up to limit handoffs of a home after the given one, ordered by ID.
	OfHome(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error)
	// KeepMisbehavior counts an offence of a home.
	KeepMisbehavior(ctx context.Context, d federation.Misbehavior) error
}

// Gateway judges the steps of other homes and determines the places of their offers.
type Gateway interface {
	// Submit judges a step in a handoff of this home.
	Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error)
	// FileRuled files a step ruled by its home: another home, or this home before its record was
	// restored. Besides refusals and outages, its errors are [*federation.GapError] and
	// [*federation.ForkError].
	FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error)
	// Say files private text for a participant of this home, once; known reports whether it was
	// already on file. Errors are refusals and outages.
	Say(ctx context.Context, t federation.Text) (known bool, err error)
	// RejectPending ends the wait of a step refused by a home, and notifies its sender.
	RejectPending(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error
	// Place returns the local channel for a new offer of another home.
	Place(ctx context.Context, ev federation.Event) (federation.ChannelRef, error)
}

// Mailboxes looks up the mailbox home of a DID. Its methods block only on the record, except
// MaySpeakFor and TakeOver.
type Mailboxes interface {
	// MaySpeakFor reports whether this gateway accepts the claim of one of these homes that a step is
	// from a DID: the mailbox is there, or no other location is known. If another home is known to
	// have the mailbox, MaySpeakFor asks that home whether it has moved, and blocks on the network.
	MaySpeakFor(ctx context.Context, did federation.DID, homes ...federation.HomeID) (bool, error)
	// Here reports whether a DID has its mailbox here.
	Here(ctx context.Context, did federation.DID) (bool, error)
	// MovedHere reports whether operators moved the mailbox of a DID from a home to here. It may have
	// left since.
	MovedHere(ctx context.Context, did federation.DID, from federation.HomeID) (bool, error)
	// MovedFrom reports whether operators moved any mailbox from a home to here.
	MovedFrom(ctx context.Context, from federation.HomeID) (bool, error)
	// TakeOver moves the mailbox of a DID from another home to this home. A non-empty reason means
	// that this home refuses it. If a third home is known to have the mailbox, TakeOver sends that
	// home a request, and blocks on the network.
	TakeOver(ctx context.Context, did federation.DID, from federation.HomeID, now time.Time) (reason string, err error)
	// MovedAway returns the parties of a handoff whose mailboxes moved from here to other homes.
	MovedAway(ctx context.Context, v federation.View, now time.Time) []federation.MovedMailbox
	// LearnMove records that a home moved the mailbox of a DID to another home.
	LearnMove(ctx context.Context, gone federation.MovedMailbox, from federation.HomeID, now time.Time) error
}

// Signer signs for this home, and verifies the signatures of other homes.
type Signer interface {
	// Sign returns the signature of a message, in the form of [federation.SignatureHeader].
	Sign(ctx context.Context, message []byte) (string, error)
	// Verify verifies the signature of a home with its keys at the given time. The error is nil
	// only for [federation.Valid].
	Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error)
}

// Poster is the HTTPS client for configured homes.
type Poster interface {
	// Post sends an envelope and returns the answer. The error wraps [*federation.UnavailableError]
	// if the envelope may have arrived. A status other than 200 is an error.
	Post(ctx context.Context, address string, e Envelope) (Envelope, error)
	// Get fetches an envelope, with the errors of Post.
	Get(ctx context.Context, address string) (Envelope, error)
}

// Traces propagates the traces of steps to and from other homes. Its methods do not block.
type Traces interface {
	// Parent returns the traceparent header for a step, or "".
	Parent(ctx context.Context, step federation.EventID) string
	// Join returns ctx with the span of a traceparent header.
	Join(ctx context.Context, parent string) context.Context
}

// Deps are the dependencies of the exchange with other homes.
type Deps struct {
	Home federation.HomeID
	// Boot changes with each start of this gateway, and so with each restore of its record. Homes
	// compare their histories after a start of either one.
	Boot    string
	Record  Record
	Gateway Gateway
	// Mailboxes decides which DIDs another home may represent.
	Mailboxes Mailboxes
	Signer    Signer
	Poster    Poster
	Hub       *Hub
	PubSub    *Relay
	Traces    Traces
	Log       *slog.Logger
	// Read parses the step in a canonical document.
	Read func(document string) (federation.Event, error)
	// ReadText parses the private text in a document signed by a home for its author. The error is a
	// [*federation.RefusalError], even for an invalid signature.
	ReadText func(document, signature string) (federation.Text, error)
	// Topic returns the topic of the steps pending a home's ruling.
	Topic func(home federation.HomeID) string
	// MaxHops returns the maximum number of homes that a step may pass through; 0 means no limit.
	MaxHops func() int
	// BadInput counts a refused message of another home, by a reason from a closed set. The home is
	// "" over HTTPS. It may be nil.
	BadInput func(home federation.HomeID, reason string)
	// Caught is called with a panic in the processing of a hub message, which the hub then
	// redelivers. It may be nil.
	Caught func(ctx context.Context, err error)
	// Linked is called once the link to another home is up. It may be nil, and may block on the disk.
	Linked func(ctx context.Context)
	// Now returns the time used for messages sent and received.
	Now func() time.Time
}
