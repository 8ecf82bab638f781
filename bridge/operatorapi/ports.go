package operatorapi

import (
	"context"
	"io"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

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

// Mailboxes knows at which home the mailbox of a DID is.
type Mailboxes interface {
	// MoveInbox moves the mailbox of a DID and its waiting entries to another home. With dry
	// it counts them only. It blocks on the network. Its error may be a [*bridge.ProblemError].
	MoveInbox(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (federation.MovedInbox, error)
	// Routes returns where the mailboxes of the parties of a handoff are, as far as that is
	// known; none where no other home exists.
	Routes(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error)
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

// Relay examines the server at which homes meet.
type Relay interface {
	// CheckRelay returns the result of each check. It blocks on the network.
	CheckRelay(ctx context.Context) []federation.Finding
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
