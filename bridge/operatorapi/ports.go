package operatorapi

import (
	"context"
	"io"
	"iter"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
	"baton/federation/agents"
)

// Handoffs reads the handoffs of the record.
type Handoffs interface {
	// Handoffs returns up to limit handoffs that a filter admits, the newest movement first,
	// from after a cursor on, and the cursor to go on from: "" after the last. A page may be
	// shorter than limit before that. It returns [federation.ErrUnknownCursor] for a cursor
	// that the record never gave out.
	Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error)
	// Find returns up to [federation.MaxFound] handoffs whose ID ends in a suffix.
	Find(ctx context.Context, suffix string) ([]federation.HandoffID, error)
	// Log yields the steps of a handoff after a version in order; after 0 are all. It ends at the
	// first error.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Reference returns the handoff of an event, or [federation.ErrNotFound].
	Reference(ctx context.Context, ref string) (federation.HandoffID, error)
	// Step returns one step of a handoff, or [federation.ErrNotFound].
	Step(ctx context.Context, handoff federation.HandoffID, id federation.EventID) (federation.Entry, error)
	// Receipts returns the receipts that the home of a handoff signed.
	Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error)
	// Deliveries returns the deliveries of the steps of a handoff, in the order of the steps.
	// It looks for pending ones in the outboxes of these links alone.
	Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error)
	// DeferredStep returns a step that waits for a key, or [federation.ErrNotFound].
	DeferredStep(ctx context.Context, id federation.EventID) (federation.Deferred, error)
	// History returns the keys of a DID and their sources.
	History(ctx context.Context, did federation.DID) (federation.KeyHistory, error)
}

// Rulings tells how other homes rule on the steps of operators.
type Rulings interface {
	// AwaitRuling blocks until the home of a remote handoff has ruled on a step that waits for
	// it, and returns the entry of the step once it is filed. The error is a
	// [*federation.RefusalError] for a step that the home refused, that of ctx while the home
	// has not ruled, and otherwise that of the record.
	AwaitRuling(ctx context.Context, ev federation.Event) (federation.Entry, error)
	// EndOrphan ends a remote handoff here whose home has lost it, and returns it as it is
	// then. The error is a [*federation.RefusalError] for a handoff that cannot end, and
	// otherwise that of the record.
	EndOrphan(ctx context.Context, id federation.HandoffID, reason string) (federation.View, error)
}

// Deadlines knows when the home ends handoffs. It does not block.
type Deadlines interface {
	// Ends returns the step with which the home ends a handoff in which no party acts, and
	// when; "" where it does not end it.
	Ends(view federation.View) (federation.Verb, time.Time)
}

// Passports makes passports of handoffs.
type Passports interface {
	// Passport returns the passport of a handoff. It reads the record and signs. Its error
	// may be a [*bridge.ProblemError].
	Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error)
}

// Inboxes reads the inboxes of the record, and keeps how far their devices are.
type Inboxes interface {
	// Replay returns up to limit entries of an inbox after a cursor, oldest first. It returns
	// a [*federation.CursorError] for a cursor that this inbox never gave out.
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	// Devices returns the devices of a DID by name.
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	// Advance ends the waiting of all entries up to a cursor, and keeps that for the device.
	// It returns [federation.ErrTooManyDevices], or a [*federation.CursorError] for a cursor
	// that this inbox never gave out.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
}

// Mailboxes knows at which home the mailbox of a DID is.
type Mailboxes interface {
	// MoveInbox moves the mailbox of a DID and its waiting entries to another home. With dry
	// it counts them only. It blocks on the network. Its error may be a [*bridge.ProblemError].
	MoveInbox(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (federation.MovedInbox, error)
	// Routes returns where the mailboxes of the parties of a handoff are, as far as that is
	// known; none where no other home exists.
	Routes(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error)
}

// Feeds reads and changes the pending deliveries of the record.
type Feeds interface {
	// WaitingFor returns up to limit pending deliveries that a filter admits after a cursor,
	// and the cursor to go on from: "" after the last. It returns
	// [federation.ErrUnknownCursor] for a cursor that the record never gave out.
	WaitingFor(ctx context.Context, f federation.WaitingFilter, after federation.Cursor, limit int) ([]federation.Waiting, federation.Cursor, error)
	// Shapes returns a row for each destination with pending deliveries, links first.
	Shapes(ctx context.Context, now time.Time) ([]federation.Shape, error)
	// Backlog counts the pending deliveries of a link.
	Backlog(ctx context.Context, link string) (federation.Backlog, error)
	// Retry schedules deliveries for now, and returns how many.
	Retry(ctx context.Context, f federation.WaitingFilter, now time.Time) (int, error)
	// GiveUp ends deliveries as dead letters and tells their signers, or with drop does
	// neither. It returns how many.
	GiveUp(ctx context.Context, f federation.WaitingFilter, drop bool, reason string, now time.Time) (int, error)
	// Hold keeps the deliveries to a destination back until Release. Holding it again changes
	// the reason alone.
	Hold(ctx context.Context, h federation.Withheld) error
	// Release returns [federation.ErrNotFound] for a destination that is not held.
	Release(ctx context.Context, to string) error
	// Holds returns the destinations that are held, by name.
	Holds(ctx context.Context) ([]federation.Withheld, error)
}

// DeadLetters reads and settles the dead letters of the record.
type DeadLetters interface {
	// DeadLetters returns up to limit dead letters, the newest first, before an ID, or from
	// the newest with 0.
	DeadLetters(ctx context.Context, f federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error)
	// DeadLetter returns [federation.ErrNotFound] for an unknown ID, as Revive and Discard do.
	DeadLetter(ctx context.Context, id int64) (federation.DeadLetter, error)
	// Revive schedules the delivery of a dead letter for now. It returns false for one that
	// is scheduled or delivered already.
	Revive(ctx context.Context, id int64, now time.Time) (bool, error)
	// Discard deletes a dead letter and has its signer told.
	Discard(ctx context.Context, id int64, now time.Time) error
}

// Webhooks reads and changes the webhooks of the record.
type Webhooks interface {
	// Webhook returns [federation.ErrNotFound] for an unknown ID, as PushAgain does.
	Webhook(ctx context.Context, id federation.WebhookID) (federation.Webhook, error)
	// Webhooks returns up to limit webhooks of a DID, or with "" of all, by ID after one.
	Webhooks(ctx context.Context, of federation.DID, after federation.WebhookID, limit int) ([]federation.Webhook, error)
	// WebhookBacklog counts the pending deliveries of a webhook.
	WebhookBacklog(ctx context.Context, id federation.WebhookID) (federation.WebhookBacklog, error)
	// Pushes returns up to limit deliveries of a webhook, the newest first, before a
	// position, or from the newest with 0.
	Pushes(ctx context.Context, id federation.WebhookID, before int64, limit int) ([]federation.Push, error)
	// PushAgain schedules the deliveries of what ref names, or with "" all that failed, and
	// returns how many there are.
	PushAgain(ctx context.Context, id federation.WebhookID, ref string, now time.Time) (int, error)
}

// Links lists and switches the links of the gateway.
type Links interface {
	// Statuses returns the links of this moment, in the order of the configuration. It does not
	// block.
	Statuses() []bridge.LinkStatus
	// Dial ends the wait of a link that is to dial later, and does not block. It returns
	// [federation.ErrNotFound] for a name that no link has, as Disconnect and Connect do.
	Dial(name string) error
	// Disconnect stops a link until Connect or the end of the gateway. It blocks until the link
	// has stopped.
	Disconnect(name string) error
	// Connect starts a link that Disconnect has stopped. It does not block.
	Connect(name string) error
}

// Doctor checks the gateway.
type Doctor interface {
	// Examine returns the result of each check; with online it offers a canary to each peer too.
	// It blocks on the disk and the network, for less than thirty seconds.
	Examine(ctx context.Context, online bool) []contract.Diagnosis
}

// PolicySource knows what the gateway judges by. It does not block.
type PolicySource interface {
	// Policy returns the rules and limits that hold now.
	Policy() contract.Policy
}

// Settings changes what the gateway takes from its configuration.
type Settings interface {
	// Reload reads the configuration again and applies what may change while the gateway runs,
	// or with dry only compares it. It waits until the links that the change ends are closed. A
	// mistake in the file changes nothing, and is a [*ProblemError] with its line.
	Reload(ctx context.Context, dry bool) (contract.Reloaded, error)
	// SetLogLevel sets the level of a package and of the packages below it, or of all packages
	// for "", and returns the levels after it. It does not block. Its error is a
	// [*ProblemError] for an unknown level or package.
	SetLogLevel(pkg, level string, dry bool) (contract.LogLevels, error)
}

// Peers reads and changes the registries and homes that the gateway knows.
type Peers interface {
	// Peers returns the peers that the configuration or an operator named. It does not block.
	Peers() []Peer
	// SetMode sets the mode of a peer, or with dry checks whether it could. Its error may be a
	// [*bridge.ProblemError].
	SetMode(ctx context.Context, m federation.PeerMode, dry bool) error
	// ComparePeer compares histories with another home and sends what it lacks, or with dry
	// checks that there is such a home. It blocks on the network. Its error may be a
	// [*bridge.ProblemError].
	ComparePeer(ctx context.Context, home federation.HomeID, dry bool) (Compared, error)
}

// Homes adds and removes other homes. The errors may be [*bridge.ProblemError].
type Homes interface {
	// AddHome inspects another home, keeps it, and sends it a canary, unless it is a dry run. It
	// blocks until the canary is back, or for some seconds.
	AddHome(ctx context.Context, url string, allowPrivate, dry bool) (federation.AddedHome, error)
	// RemoveHome removes a home that AddHome kept, or with dry checks whether it could.
	RemoveHome(ctx context.Context, name string, dry bool) (federation.KnownHome, error)
}

// Offences reads the proofs against other homes.
type Offences interface {
	// Forks returns up to limit handoffs of which a home signed two histories.
	Forks(ctx context.Context, home federation.HomeID, limit int) ([]federation.Fork, error)
	// Offences returns the offences of a home.
	Offences(ctx context.Context, home federation.HomeID) ([]federation.Offence, error)
}

// Relay examines the server at which homes meet.
type Relay interface {
	// CheckRelay returns the result of each check. It blocks on the network.
	CheckRelay(ctx context.Context) []federation.Finding
}

// Bindings reads and changes which names stand for which DIDs.
type Bindings interface {
	// Configured returns the bindings of the configuration. It does not block.
	Configured() []federation.BoundName
	// BindName keeps a binding. It returns [federation.ErrTaken] for a name that is bound to
	// another DID.
	BindName(ctx context.Context, b federation.BoundName) error
	// UnbindName returns [federation.ErrNotFound] for a name that is not bound, as BoundName
	// does.
	UnbindName(ctx context.Context, network, name string) error
	// BoundName returns the binding of a name.
	BoundName(ctx context.Context, network, name string) (federation.BoundName, error)
	// BoundNames returns up to limit bindings after a name, by network and name.
	BoundNames(ctx context.Context, network, name string, limit int) ([]federation.BoundName, error)
}

// Blocks reads which sources the gateway refuses.
type Blocks interface {
	// BlocksAfter returns up to limit blocks after a text, by what they name.
	BlocksAfter(ctx context.Context, what string, limit int) ([]federation.Block, error)
}

// Blocker changes which sources the gateway refuses.
type Blocker interface {
	// Block keeps a block, and with purge ends what its source offered and drops the pending
	// deliveries. With dry it counts them only. Its error may be a [*bridge.ProblemError].
	Block(ctx context.Context, b federation.Block, purge, dry bool) (federation.Block, bridge.Purged, error)
	// Unblock ends a block, or with dry checks that it exists. It returns
	// [federation.ErrNotFound] for a source that is not blocked.
	Unblock(ctx context.Context, b federation.Block, dry bool) error
}

// Eraser erases the content of what a person took part in.
type Eraser interface {
	// Erase erases what a DID took part in, or with dry counts it. It blocks while the record is
	// written anew. Its error may be a [*bridge.ProblemError].
	Erase(ctx context.Context, did federation.DID, dry bool) (federation.Erasing, error)
	// Copies returns the files of the gateway that may have text which was erased. It blocks on
	// the disk, and its error is that of the disk.
	Copies() ([]string, error)
}

// Senders counts what senders sent. It does not block.
type Senders interface {
	// TopSenders returns up to limit senders with the most steps in a time before now, by
	// [ByDID], [ByAddress] or [ByLink].
	TopSenders(by string, since time.Duration, limit int, now time.Time) []bridge.Sender
}

// Handles manages the handles in the registry of agents.
type Handles interface {
	// Agent returns [federation.ErrNotFound] for an unknown handle, as ReleaseHandle does.
	Agent(ctx context.Context, handle string) (agents.Agent, error)
	// ReleaseHandle ends the keys, sessions and webhooks of a handle, so that it can be registered
	// again. Its inbox and consent stay. It is idempotent.
	ReleaseHandle(ctx context.Context, handle string, now time.Time) error
}

// HeldRelays keeps the messages of unverified senders of other registries that wait for consent.
type HeldRelays interface {
	// HeldRelays returns up to limit of them after a number, oldest first: of one sender and to one
	// recipient, "" for any.
	HeldRelays(ctx context.Context, from, to string, after int64, limit int) ([]agents.Held, error)
	// HeldRelay returns [federation.ErrNotFound] for a message that is not held, as DropHeld does.
	HeldRelay(ctx context.Context, id int64) (agents.Message, error)
	// DropHeld deletes one.
	DropHeld(ctx context.Context, id int64, now time.Time) error
}

// Tokens keeps the tokens of operators.
type Tokens interface {
	// AddToken returns [federation.ErrTaken] for a name that another token has.
	AddToken(ctx context.Context, t federation.OperatorToken) error
	// RevokeToken returns [federation.ErrNotFound] for an unknown name.
	RevokeToken(ctx context.Context, name string) error
	// Token returns the token with a digest, or [federation.ErrNotFound] for one that is
	// unknown, revoked or expired.
	Token(ctx context.Context, digest [32]byte, now time.Time) (federation.OperatorToken, error)
	// Tokens returns up to limit tokens by name, after one.
	Tokens(ctx context.Context, after string, limit int) ([]federation.OperatorToken, error)
}

// Sessions lists and ends the sessions of participants.
type Sessions interface {
	// AgentOf returns the agent that has a DID, or [federation.ErrNotFound].
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
	// Sessions returns the live sessions of some participants, named by handles and DIDs.
	Sessions(ctx context.Context, participants []string, now time.Time) ([]federation.Session, error)
	// EndSessions ends the sessions of some participants except one, "" for none, and returns their
	// number.
	EndSessions(ctx context.Context, participants []string, except string, unbound bool, now time.Time) (int, error)
}

// Audit keeps what operators changed.
type Audit interface {
	// Note keeps a change.
	Note(ctx context.Context, c federation.Change) error
	// Changes returns up to limit changes, the newest first, before an ID, or from the newest
	// with 0.
	Changes(ctx context.Context, f federation.ChangeFilter, before int64, limit int) ([]federation.Change, error)
}

// Vault holds the keys and the files of the gateway.
type Vault interface {
	// Backup returns a tar file of the record and the keys as they are now. It blocks until
	// all is copied. The caller closes it.
	Backup(ctx context.Context) (io.ReadCloser, error)
	// Rotate replaces a key of the gateway and returns the new one. The old
	// key verifies for the overlap. Its error may be a [*bridge.ProblemError].
	Rotate(ctx context.Context, name string, overlap time.Duration, now time.Time) (contract.Key, error)
	// Keys returns the public parts of all keys, rotated ones among them. It reads
	// files, or blocks on a signer.
	Keys(ctx context.Context, now time.Time) ([]contract.Key, error)
}

// Refusals counts refusals. It does not block.
type Refusals interface {
	// Refused counts a refusal with a code.
	Refused(code federation.RefusalCode)
}
