package server

import (
	"context"
	"net/netip"
	"time"

	"baton/bridge"
	"baton/federation"
)

// The ports onto the record block on the disk. Each method returns an error that wraps
// [*federation.UnavailableError] when the disk cannot be read or written now.

// Handoffs reads handoffs.
type Handoffs interface {
	// View returns the zero View for a handoff that is not on record.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Handoffs returns up to limit handoffs that a filter admits after a cursor, and the
	// cursor to go on from: "" at the end.
	Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error)
	// AwaitingIn returns the steps of a handoff that wait for the ruling of its home, oldest
	// first.
	AwaitingIn(ctx context.Context, id federation.HandoffID) ([]federation.Pending, error)
}

// Participant is a person or an agent that has a handle here.
type Participant struct {
	Handle string
	DIDs   []federation.DID // that it may act as
	// Bound is the DID that an operator bound the handle to, "" for none. The participant may
	// act as it only where DIDs has it too.
	Bound federation.DID
}

// Participants knows the people and agents behind DIDs. Each method returns an error that
// wraps [federation.ErrNotFound] for one that the record does not know.
type Participants interface {
	// WithHandle returns the participant that has a handle.
	WithHandle(ctx context.Context, handle string) (Participant, error)
	// WithDID returns the participant that has, or had, a DID.
	WithDID(ctx context.Context, did federation.DID) (Participant, error)
	// Binding returns where a DID last signed a step.
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
}

// Sessions reads the sessions of participants logged in to the APIs of this gateway. It blocks on
// the record and returns its errors.
type Sessions interface {
	// HasSession reports whether a participant has a live session.
	HasSession(ctx context.Context, participant string, now time.Time) (bool, error)
	// Seen reports whether a DID logged in within a year, read its inbox or declared its
	// capabilities.
	Seen(ctx context.Context, did federation.DID) (bool, error)
}

// Mailboxes knows which home has the mailbox of a DID. It blocks on the record, and returns its
// errors.
type Mailboxes interface {
	// Locate returns where the mailbox of a DID is. The location names no home where none is known.
	Locate(ctx context.Context, did federation.DID) (federation.MailboxLocation, error)
	// KnowsHomes reports whether this home has peers, or knows other homes.
	KnowsHomes(ctx context.Context) (bool, error)
}

// Names knows the names that stand for DIDs.
type Names interface {
	// Of returns the names that are bound to a DID; none is no error.
	Of(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
}

// Notices keeps what signers are to be told.
type Notices interface {
	// Notify files a notice, unless one of its kind is on file for the step.
	Notify(ctx context.Context, n federation.Notice) error
	// Untold returns up to limit notices of a link that are due, oldest first.
	Untold(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error)
	// TellLater puts a notice off until a time.
	TellLater(ctx context.Context, n federation.Notice, next time.Time) error
	// Told ends a notice. One that is not on file is no error.
	Told(ctx context.Context, n federation.Notice) error
}

// Deliveries ends deliveries that wait for too long.
type Deliveries interface {
	// Delay files notices for up to limit deliveries that have waited since a time or
	// longer and have none, and returns how many.
	Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error)
	// Expire gives up to limit deliveries up that have waited since a time or longer, and
	// returns how many.
	Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error)
}

// Blocks keeps the blocks of operators, and drops what waits of blocked sources.
type Blocks interface {
	// AddBlock keeps a block, in the place of one that names the same source.
	AddBlock(ctx context.Context, b federation.Block) error
	// RemoveBlock ends a block. It returns [federation.ErrNotFound] where there is none.
	RemoveBlock(ctx context.Context, what string) error
	// BlocksAfter returns up to limit blocks after the one with a text, in the order of
	// their texts.
	BlocksAfter(ctx context.Context, what string, limit int) ([]federation.Block, error)
	// Senders returns up to limit DIDs after one, in order, of which something waits or that
	// offered a handoff which is not over.
	Senders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error)
	// Purge drops what waits of DIDs and handles, or where dry counts it.
	Purge(ctx context.Context, dids []federation.DID, handles []string, now time.Time, dry bool) (federation.Purged, error)
}

// Erasures erases the content of what a person took part in.
type Erasures interface {
	// Erasable counts what Erase would erase, and changes nothing.
	Erasable(ctx context.Context, of federation.ErasureQuery) (federation.Erasing, error)
	// Erase erases. Where the person has a handoff that is not over, it names these and erases
	// nothing. One that was cut short is resumed by calling it again.
	Erase(ctx context.Context, of federation.ErasureQuery, now time.Time) (federation.Erasing, error)
	// Compact removes deleted bytes from the files of the record. It blocks every write for the
	// time in which the disk copies the record twice.
	Compact(ctx context.Context) error
}

// Pruner deletes from the record what is old. Each call is one short write, of up to limit
// rows.
type Pruner interface {
	// Prune deletes handoffs that are over and have not moved since a time, and returns the
	// cursor to go on from: "" at the end.
	Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error)
	// PruneMessages deletes AIRC messages, likewise.
	PruneMessages(ctx context.Context, before time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error)
	// PruneConversations deletes messages that wait nowhere.
	PruneConversations(ctx context.Context, before time.Time, limit int) (pruned int, err error)
	// PruneChat deletes lines of channels that wait nowhere and name no handoff.
	PruneChat(ctx context.Context, before time.Time, limit int) (pruned int, err error)
	// PruneIDs forgets the ids of deleted steps.
	PruneIDs(ctx context.Context, before time.Time, limit int) (pruned int, err error)
	// PruneDead deletes dead letters.
	PruneDead(ctx context.Context, before time.Time, limit int) (pruned int, err error)
	// PruneNotices deletes notices, told or not.
	PruneNotices(ctx context.Context, before time.Time, limit int) (pruned int, err error)
	// PruneAnswers deletes the answers to requests with a key of their own.
	PruneAnswers(ctx context.Context, before time.Time, limit int) (pruned int, err error)
	// PruneBlobs deletes stored contexts that expired.
	PruneBlobs(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}

// Growth measures the record.
type Growth interface {
	// Growth returns by how many bytes the record grew within the last
	// [federation.AcquaintanceAge].
	Growth(ctx context.Context, now time.Time) (int64, error)
	// MetSince returns up to limit DIDs that the record met after a time, oldest first.
	MetSince(ctx context.Context, since time.Time, limit int) ([]federation.Newcomer, error)
}

// Counts counts what waits in the record, for metrics.
type Counts interface {
	// Backlog counts the deliveries of a link.
	Backlog(ctx context.Context, link string) (federation.Backlog, error)
	// WebhooksBacklog counts the deliveries to webhooks.
	WebhooksBacklog(ctx context.Context) (federation.Backlog, error)
	// CountDeferred counts the steps that wait for a key, by network.
	CountDeferred(ctx context.Context) (map[string]int, error)
	// CountDead counts the dead letters, by reason.
	CountDead(ctx context.Context) (map[federation.DeadReason]int, error)
}

// KeyFetcher looks up the keys of steps.
type KeyFetcher interface {
	// Await looks up a key that is not at hand, and waits for it: for a second at most, and
	// until ctx ends.
	Await(ctx context.Context, q federation.KeyQuery)
	// Seek starts to look up a key that is not at hand. It does not block.
	Seek(ctx context.Context, q federation.KeyQuery)
	// Cancel ends the look-ups for the steps of a link. It does not block.
	Cancel(link string)
}

// AddressRates limits the steps of each client address.
type AddressRates interface {
	// Wait counts a step of an address, and returns how long the address has to wait before
	// it may send one; 0 where it may now.
	Wait(from netip.Prefix, now time.Time) time.Duration
	// Left returns what an address has left, without counting anything.
	Left(from netip.Prefix, now time.Time) bridge.Allowance
}
