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

// Record is the required part of the record. [store.Record] documents the methods.
type Record interface {
	// View returns the view of a handoff, or the zero View.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Log returns the steps of a handoff after a version, in order.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Evidence returns the original behind a vouched step, or [federation.ErrNotFound].
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// ListPending returns up to limit steps that wait for a home's ruling, oldest first.
	ListPending(ctx context.Context, home federation.HomeID, limit int) ([]federation.Pending, error)
	// Chain returns the [federation.Link] after a step, or [federation.ErrNotFound].
	Chain(ctx context.Context, id federation.HandoffID, version federation.Version) ([32]byte, error)
	// RulingOn returns the ruling by which another home's step was filed, or [federation.ErrNotFound].
	RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error)
	// Pruned reports whether a handoff was pruned and its IDs are still stored.
	Pruned(ctx context.Context, id federation.HandoffID) (bool, error)
	// Forked reports whether a handoff provably has two histories.
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

// Gateway judges steps of other homes and selects the places of their offers.
type Gateway interface {
	// Submit judges a step in a handoff of this home.
	Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error)
	// FileRuled files a step ruled by another home, or by this home before a restore. Besides refusals
	// and outages, its errors are [*federation.GapError] and [*federation.ForkError].
	FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error)
	// Say files private text for a local participant. The result known is true if it was filed before.
	// Errors are refusals and outages.
	Say(ctx context.Context, t federation.Text) (known bool, err error)
	// RejectPending ends the wait of a refused step, and notifies its sender.
	RejectPending(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error
	// Place returns the local channel for another home's new offer.
	Place(ctx context.Context, ev federation.Event) (federation.ChannelRef, error)
}

// Mailboxes finds the mailbox home of a DID. Only MaySpeakFor and TakeOver may block on the network.
type Mailboxes interface {
	// MaySpeakFor reports whether these homes may claim that a step is from a DID: one of them has its
	// mailbox, or no other location is known. If another home has it, MaySpeakFor asks that home
	// whether it has moved.
	MaySpeakFor(ctx context.Context, did federation.DID, homes ...federation.HomeID) (bool, error)
	// Here reports whether a DID's mailbox is here.
	Here(ctx context.Context, did federation.DID) (bool, error)
	// MovedHere reports whether operators moved a DID's mailbox from a home to here. It may have left
	// since.
	MovedHere(ctx context.Context, did federation.DID, from federation.HomeID) (bool, error)
	// MovedFrom reports whether operators moved any mailbox from a home to here.
	MovedFrom(ctx context.Context, from federation.HomeID) (bool, error)
	// TakeOver moves a DID's mailbox from another home to this home. A non-empty reason is a refusal.
	// If a third home has the mailbox, TakeOver asks that home.
	TakeOver(ctx context.Context, did federation.DID, from federation.HomeID, now time.Time) (reason string, err error)
	// MovedAway returns the parties of a handoff whose mailboxes moved from here.
	MovedAway(ctx context.Context, v federation.View, now time.Time) []federation.MovedMailbox
	// LearnMove records that a home moved a DID's mailbox to another home.
	LearnMove(ctx context.Context, gone federation.MovedMailbox, from federation.HomeID, now time.Time) error
}

// Signer signs for this home and verifies other homes' signatures.
type Signer interface {
	// Sign returns a signature in the form of [federation.SignatureHeader].
	Sign(ctx context.Context, message []byte) (string, error)
	// Verify verifies a home's signature with its keys at the given time. The error is nil only for
	// [federation.Valid].
	Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error)
}

// Poster is the HTTPS client for configured homes.
type Poster interface {
	// Post sends an envelope and returns the answer. The error wraps [*federation.UnavailableError] if
	// the envelope may have arrived. A status other than 200 is an error.
	Post(ctx context.Context, address string, e Envelope) (Envelope, error)
	// Get has the errors of Post.
	Get(ctx context.Context, address string) (Envelope, error)
}

// Traces propagates traces of steps between homes. Its methods do not block.
type Traces interface {
	// Parent returns the traceparent header for a step, or "".
	Parent(ctx context.Context, step federation.EventID) string
	// Join returns ctx with the span of a traceparent header.
	Join(ctx context.Context, parent string) context.Context
}

// Deps are the dependencies of a [Peer] and a [PeerHandler].
type Deps struct {
	Home federation.HomeID
	// Boot changes with each start of this gateway. Homes compare histories after a start of either
	// one.
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
	// Read parses a canonical document.
	Read func(document string) (federation.Event, error)
	// ReadText parses the private text in a document signed by a home. The error is a
	// [*federation.RefusalError], even for an invalid signature.
	ReadText func(document, signature string) (federation.Text, error)
	// Topic returns the topic of steps that wait for a home's ruling.
	Topic func(home federation.HomeID) string
	// MaxHops returns the maximum number of homes on a step's path; 0 means no limit.
	MaxHops func() int
	// BadInput counts a refused message by home and by a reason from a closed set. The home is "" over
	// HTTPS. It may be nil.
	BadInput func(home federation.HomeID, reason string)
	// Caught receives a panic in the processing of a hub message, which the hub then redelivers. It may
	// be nil.
	Caught func(ctx context.Context, err error)
	// Linked is called when the link to another home is up. It may be nil, and may block on the disk.
	Linked func(ctx context.Context)
	// Now is used for messages sent and received.
	Now func() time.Time
}
