package federationtest

import (
	"context"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Record is all that the suites hold a record to: its core, and the tables of a registry.
type Record interface {
	Store
	Handoffs
	Inboxes
	Leases
	Devices
	Outbox
	Bindings
	BoundNames
	Deliveries
	federation.Keys
	PeerOutboxes
	Sessions
	Retention
	PendingRulings
	Notices
	federation.Deferrals
	Homes
	federation.Blobs
	DeadLetters
	Waits
	Reroutes
	Audit
	PeerModes
	KnownHomes
	OperatorTokens
	Answers
	Declarations
	ReplicaLeases
	Spoken
	Webhooks
	OwnKeys
	Newcomers
	BlockList
	Purges
	Registry
	// Ready returns nil while the record can be written.
	Ready(ctx context.Context) error
	// Close ends the record after what was begun is on disk.
	Close() error
}

// Registry is what the tables of a registry keep. The registry itself declares its ports,
// and says what each method promises.
type Registry interface {
	AddAgent(ctx context.Context, a agents.Agent) error
	ReleaseHandle(ctx context.Context, handle string, now time.Time) error
	AddAgentSession(ctx context.Context, a agents.Agent, first federation.Session) error
	StartAgentSession(ctx context.Context, s federation.Session) (federation.Session, error)
	RevokeAgent(ctx context.Context, handle, by, reason string, now time.Time) error
	Agent(ctx context.Context, handle string) (agents.Agent, error)
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
	RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error)
	RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (agents.Agent, error)
	Post(ctx context.Context, p agents.Posting) (agents.Message, error)
	Sent(ctx context.Context, from, id string, since time.Time) (agents.Message, error)
	Named(ctx context.Context, handle, id string) (agents.Message, error)
	OfferMessage(ctx context.Context, handle string, id federation.HandoffID) (agents.Message, error)
	Inbox(ctx context.Context, to string, after federation.Cursor, limit int) (messages []agents.Message, more bool, err error)
	Unshown(ctx context.Context, to, from string) (federation.InboxUse, error)
	Show(ctx context.Context, to string, upTo federation.Cursor) error
	HandOut(ctx context.Context, to string, events []federation.EventID, now time.Time) error
	Thread(ctx context.Context, handle, peer string, after uint64, limit int) (messages []agents.Message, more bool, err error)
	MarkRead(ctx context.Context, handle, id string, now time.Time) error
	Delete(ctx context.Context, handle, id string) error
	Shown(ctx context.Context, id federation.HandoffID) ([]string, error)
	Capable(ctx context.Context, caps []string) ([]agents.Agent, error)
	Consent(ctx context.Context, from, to string) (agents.Consent, error)
	Accept(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	AcceptOneWay(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	Block(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	Unblock(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	Contacts(ctx context.Context, handle string, limit int) ([]string, error)
	SetShows(ctx context.Context, handle string, shows agents.Shows) error
	MayAsk(ctx context.Context, from, to, source string, firstContacts federation.InboxLimits, now time.Time) error
	Pending(ctx context.Context, to string, limit int) ([]agents.Consent, error)
	Edges(ctx context.Context, to, after string, limit int) ([]agents.Consent, error)
	HeldRelays(ctx context.Context, from, to string, after int64, limit int) ([]agents.Held, error)
	HeldRelay(ctx context.Context, id int64) (agents.Message, error)
	DeliverHeld(ctx context.Context, id int64, now time.Time) error
	DropHeld(ctx context.Context, id int64, now time.Time) error
	ExpireHeld(ctx context.Context, before, now time.Time, limit int) (int, error)
	PruneMessages(ctx context.Context, before time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error)
	Unseen(ctx context.Context, opened time.Time, limit int) ([]federation.View, error)
	Fresh(ctx context.Context, to string, limit int) ([]agents.Message, error)
	Since(ctx context.Context, to string, since time.Time, limit int) ([]agents.Message, error)
	Recent(ctx context.Context, handle, peer string, limit int) ([]agents.Message, error)
	Conversations(ctx context.Context, handle string, limit int) ([]agents.Conversation, error)
	ReadConversation(ctx context.Context, handle, peer string, now time.Time) error
	ProveKey(ctx context.Context, handle, kid string, did federation.DID, now time.Time) (agents.Agent, error)
	Unproved(ctx context.Context, now time.Time, limit int) (handles []string, total int, err error)
}
