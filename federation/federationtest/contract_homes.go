package federationtest

import (
	"context"

	"baton/federation"
)

// Homes keeps the statements of other homes, and the mailbox locations of DIDs. Its promises
// are in [Store].
type Homes interface {
	// Chain returns the [federation.Link] after a step of a log, or [federation.ErrNotFound] for a step that
	// the log does not have.
	Chain(ctx context.Context, id federation.HandoffID, version federation.Version) ([32]byte, error)
	// RulingOn returns the document and the signature of the ruling by which a step was
	// filed (see [federation.Filing]), or [federation.ErrNotFound].
	RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error)
	// KeepFork keeps a proof. Of one handoff the first is kept.
	KeepFork(ctx context.Context, f federation.Fork) error
	// Forks returns up to limit proofs against a home, newest first.
	Forks(ctx context.Context, home federation.HomeID, limit int) ([]federation.Fork, error)
	// Forked reports whether there is proof that a handoff has two histories.
	Forked(ctx context.Context, id federation.HandoffID) (bool, error)
	// KeepOffence counts an offence of a home, at o.Last. Of a home there is one offence
	// of each kind, which counts the times, and has the last reason.
	KeepOffence(ctx context.Context, o federation.Offence) error
	// Offences returns the offences of a home, in the order of their kinds.
	Offences(ctx context.Context, home federation.HomeID) ([]federation.Offence, error)
	// Shared returns up to limit handoffs after one, in the order of their ids, with a step
	// that was delivered to a home.
	Shared(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error)
	// OfHome returns up to limit handoffs of a home after one, in the order of their ids.
	OfHome(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error)
	// KnowsHomes reports whether there is a kept location at another home than one, or a
	// binding of a DID that a home brought.
	KnowsHomes(ctx context.Context, self federation.HomeID) (bool, error)
	// MailboxLocation returns the kept location of the mailbox of a DID, or [federation.ErrNotFound].
	MailboxLocation(ctx context.Context, did federation.DID) (federation.MailboxLocation, error)
	// KeepMailboxLocation replaces the kept location of the mailbox of a DID.
	KeepMailboxLocation(ctx context.Context, l federation.MailboxLocation) error
}
