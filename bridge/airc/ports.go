package airc

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
)

// Registry is what the record keeps for a registry of agents, one port a subject. Every
// method blocks on the record, may be called concurrently, and returns an error wrapping
// [*federation.UnavailableError] when the record cannot be read or written now. A nil error
// of a write means that the change survives a power cut.
type Registry struct {
	Agents   Agents
	Keys     Keys
	Sessions Sessions
	Messages Messages
	Mail     Mail
	Threads  Threads
	Consents Consents
	Relays   Relays

	Names     Names
	Originals Originals
	Inboxes   Inboxes
}

// Agents keeps the agents that registered.
type Agents interface {
	// AddAgent returns [federation.ErrTaken] if another agent has the handle, and
	// [federation.ErrTokenUsed] if the account registered an agent since its Since. If another
	// agent has the DID of the key, the new agent is filed without a DID.
	AddAgent(ctx context.Context, a agents.Agent) error
	// AddAgentSession is AddAgent, and also begins the first session of the agent.
	AddAgentSession(ctx context.Context, a agents.Agent, first federation.Session) error
	// Agent returns [federation.ErrNotFound] for a handle that no agent registered.
	Agent(ctx context.Context, handle string) (agents.Agent, error)
	// AgentOf finds an agent by any of its DIDs, including DIDs of revoked keys: a step
	// that was addressed to one stays the agent's. It returns [federation.ErrNotFound] for a
	// DID that no agent has.
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
	// Capable returns the agents whose registered skills hold all of caps, of which there
	// must be one at least, in the order in which they registered.
	Capable(ctx context.Context, caps []string) ([]agents.Agent, error)
	// SetShows notes what an agent lets others see. It returns [federation.ErrNotFound] for a
	// handle that no agent registered.
	SetShows(ctx context.Context, handle string, shows agents.Shows) error
}

// Keys keeps the keys of agents, and which of them were proved. A key that an agent only
// named signs for its handle and has no DID.
//
// spec: airc-shapes "Who is who"
type Keys interface {
	// RotateKey gives an agent a key that becomes its primary one, on the word of the
	// key that was so far, or where by is empty without the word of a key: the keys without
	// an end are good until then, which the history of their own DIDs has from now on.
	// It returns the agent as it is after, [federation.ErrStale] when the key that gives its
	// word is not active any more, and [federation.ErrTaken] when the agent has a key of that
	// name or with those bytes. A key whose DID another agent has, signed a filed step or has
	// a session is filed without its DID: the proof in a rotation names no handle.
	RotateKey(ctx context.Context, handle, by string, key agents.Key, now, until time.Time) (agents.Agent, error)
	// RevokeKey ends a key of an agent at once, and its DID too. An active key authorizes it, which
	// may be the revoked key itself. If the last active key is revoked, the newest pending key
	// becomes active again and its scheduled end is cancelled. If the agent's last key is
	// revoked, all its sessions end. RevokeKey returns the updated agent, [federation.ErrStale] as RotateKey does,
	// and [federation.ErrNotFound] for an unknown key. It is idempotent. At the end of a key,
	// RevokeKey and RotateKey also end the sessions, leases and webhooks begun with that key.
	RevokeKey(ctx context.Context, handle, by, kid, reason string, now time.Time) (agents.Agent, error)
	// RevokeAgent ends all keys and sessions of an agent at once and for good. An active key
	// authorizes it; an empty by means the recovery key, which ends too. It returns
	// [federation.ErrStale] as RotateKey does.
	RevokeAgent(ctx context.Context, handle, by, reason string, now time.Time) error
	// ProveKey gives an agent the did:key of one of its keys, which it proved for its
	// handle, and returns the agent as it is after. A DID that an agent already has does
	// not change. ProveKey returns [federation.ErrNotFound] for a key that the agent does not
	// have.
	ProveKey(ctx context.Context, handle, kid string, did federation.DID, now time.Time) (agents.Agent, error)
}

// Sessions stores the sessions of agents and of their DIDs.
type Sessions interface {
	credential.Sessions

	// StartAgentSession begins a session of an agent, and returns it with the end of its key. It
	// returns [federation.ErrSessionEnded] if the key is no longer valid.
	StartAgentSession(ctx context.Context, s federation.Session) (federation.Session, error)
	// Sessions returns the sessions of some participants that have not ended, the newest first.
	Sessions(ctx context.Context, participants []string, now time.Time) ([]federation.Session, error)
	// ProlongSession notes that a session got a new token, and moves its end to expires. It
	// returns [federation.ErrNotFound] for a session that has ended.
	ProlongSession(ctx context.Context, id string, now, expires time.Time) (federation.Session, error)
	// BindSession records that the agent made a proof for this registry in a session.
	BindSession(ctx context.Context, id string) error
	// EndSession ends one session of some participants. It returns [federation.ErrNotFound] if none
	// of them has it.
	EndSession(ctx context.Context, participants []string, id string, now time.Time) error
	// EndSessions ends the sessions of some participants except one, and returns their number. With
	// unbound, it ends only unbound sessions and disables the webhooks made in them.
	EndSessions(ctx context.Context, participants []string, except string, unbound bool, now time.Time) (int, error)
}

// Messages files messages, finds them by their names, and notes what their recipients did
// with them.
type Messages interface {
	// Post files one message and returns it with its Seq (zero when held), in one
	// transaction with what else the Posting says. A message of an event that its
	// recipient already has, held or delivered, is not filed again; the one on file
	// is returned. Otherwise it returns [agents.ErrDuplicate] when From used the ID within
	// [agents.MessageIDWindow] before Received, and a [*federation.RefusalError] with
	// [federation.RateLimited] when the message would ask for consent and From may not:
	// because it asked [agents.MaxRequests] others, or is barred. It returns one with
	// [federation.InboxFull] when the message would be held and its FirstContacts have no
	// room. What was held stays held.
	Post(ctx context.Context, p agents.Posting) (agents.Message, error)
	// Sent returns the newest message with this id that the sender sent since then,
	// held ones too, or [federation.ErrNotFound].
	Sent(ctx context.Context, from, id string, since time.Time) (agents.Message, error)
	// Named returns a message with this id that the handle sent or was delivered, or
	// that was sent to its registry under this id, or [federation.ErrNotFound].
	Named(ctx context.Context, handle, id string) (agents.Message, error)
	// OfferMessage returns the message of the offer that opened a handoff, as a handle
	// sent it or was delivered it, or [federation.ErrNotFound].
	OfferMessage(ctx context.Context, handle string, id federation.HandoffID) (agents.Message, error)
	// Shown returns the handles that were sent a message of a handoff, each once.
	Shown(ctx context.Context, id federation.HandoffID) ([]string, error)
	// HandOut notes that a handle was handed the messages of some steps, which reach it at
	// that moment: the signer of one that was told that it takes time is told that too.
	// Until then, or until it acknowledges the message, a step waits for it. Handing out
	// again changes nothing.
	HandOut(ctx context.Context, to string, events []federation.EventID, now time.Time) error
	// HeldRelays returns up to limit held messages of unverified senders after a number, oldest
	// first: of one sender and to one recipient, "" for any.
	HeldRelays(ctx context.Context, from, to string, after int64, limit int) ([]agents.Held, error)
	// HeldRelay returns such a message by its number, or [federation.ErrNotFound].
	HeldRelay(ctx context.Context, id int64) (agents.Message, error)
	// DeliverHeld delivers one such message; the consent stays as it is. It returns
	// [federation.ErrNotFound] for one that is not held.
	DeliverHeld(ctx context.Context, id int64, now time.Time) error
	// MarkRead notes that a handle has read a message delivered to it. It returns
	// [federation.ErrNotFound] for one that was not. Marking again changes nothing.
	MarkRead(ctx context.Context, handle, id string, now time.Time) error
	// Delete takes a message from the inbox and the threads of the handle that it was
	// delivered to; its sender keeps it, and its ID stays used. It returns
	// [federation.ErrNotFound] for one that is not there.
	Delete(ctx context.Context, handle, id string) error
}

// Mail reads the messages that were delivered to a handle.
type Mail interface {
	// Inbox returns up to limit messages delivered to a handle after the cursor,
	// oldest first, and whether there are more. Held ones are not there. It returns
	// [federation.ErrUnknownCursor] for a cursor that this inbox never gave out.
	Inbox(ctx context.Context, to string, after federation.Cursor, limit int) (messages []agents.Message, more bool, err error)
	// Unshown counts the messages, held or not handed out yet, that wait for a handle, and
	// how many of them one sender sent. Steps wait in inboxes, and are not counted.
	Unshown(ctx context.Context, to, from string) (federation.InboxUse, error)
	// Show notes that a handle was handed its messages up to a cursor.
	Show(ctx context.Context, to string, upTo federation.Cursor) error
	// Fresh returns up to limit messages delivered to a handle that it was not handed
	// yet (see Show), oldest first.
	Fresh(ctx context.Context, to string, limit int) ([]agents.Message, error)
	// Since returns up to limit messages told to a handle after a time, oldest first.
	Since(ctx context.Context, to string, since time.Time, limit int) ([]agents.Message, error)
}

// Threads reads what two handles wrote to each other.
type Threads interface {
	// Thread returns up to limit messages between two handles with a Seq above after, in
	// order, and whether there are more. It leaves out the messages that the first handle
	// deleted.
	Thread(ctx context.Context, handle, peer string, after uint64, limit int) (messages []agents.Message, more bool, err error)
	// Recent returns the newest messages between two handles, up to limit, in order. It
	// leaves out the messages that the first handle deleted.
	Recent(ctx context.Context, handle, peer string, limit int) ([]agents.Message, error)
	// Conversations returns up to limit conversations of a handle, the one with the
	// newest message first.
	Conversations(ctx context.Context, handle string, limit int) ([]agents.Conversation, error)
	// ReadConversation notes that a handle has read all that another one wrote to it.
	ReadConversation(ctx context.Context, handle, peer string, now time.Time) error
}

// Consents keeps which handle may write to which.
type Consents interface {
	// Consent returns an edge; one that never changed is [agents.ConsentNone].
	Consent(ctx context.Context, from, to string) (agents.Consent, error)
	// Accept sets the edges from → to and to → from to accepted and delivers what
	// was held on them for agents here, in the order it came; an edge that its recipient
	// blocked stays so. It returns the first edge. Accepting again changes nothing.
	Accept(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	// AcceptOneWay is Accept without the edge to → from.
	AcceptOneWay(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	// Block sets the edge from → to to blocked and discards what was held on it.
	// Blocking again changes nothing.
	Block(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	// Unblock sets an edge that is blocked back to none. Another one stays as it is.
	Unblock(ctx context.Context, from, to string, now time.Time) (agents.Consent, error)
	// Contacts returns up to limit handles with which a handle has consent both ways,
	// in their order.
	Contacts(ctx context.Context, handle string, limit int) ([]string, error)
	// MayAsk returns nil if From may write to To, or may request consent. Otherwise it returns the
	// refusal of [Messages.Post] for the same limits on first contacts and the same source.
	MayAsk(ctx context.Context, from, to, source string, firstContacts federation.InboxLimits, now time.Time) error
	// Pending returns up to limit edges to a handle that wait for its decision, the
	// oldest first.
	Pending(ctx context.Context, to string, limit int) ([]agents.Consent, error)
	// Edges returns up to limit edges to a handle but those without consent, in the order of
	// their senders, after one.
	Edges(ctx context.Context, to, after string, limit int) ([]agents.Consent, error)
}

// Relays holds the messages and decisions that other registries do not have yet. What
// Relayed, Bury and Delayed mean to the signer of a step that is no agent here is filed as
// a [federation.Notice]; agents are told by their registry.
type Relays interface {
	// Enqueue files a relay that goes with no message of the record, unless the same
	// Message of the same Sender waits in its Lane already. It returns a
	// [*federation.UnavailableError] where [federation.MaxPeerDeliveries] wait for the peer.
	Enqueue(ctx context.Context, r federation.PeerDelivery) error
	// PeerOutboxes returns the peers with pending relays, by their names.
	PeerOutboxes(ctx context.Context) ([]federation.PeerOutbox, error)
	// Pause notes that a peer did not answer, or with no Failures that it did.
	Pause(ctx context.Context, p federation.PeerOutbox) error
	// PeerBacklogs returns how the queue of each peer stands, by their names.
	PeerBacklogs(ctx context.Context) ([]federation.PeerBacklog, error)
	// PeerDeliveries returns up to limit rows of a peer after one, in the order in which they
	// were queued; after 0 from the first.
	PeerDeliveries(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error)
	// PeerQueue is PeerDeliveries without documents.
	PeerQueue(ctx context.Context, peer string, after int64, limit int) ([]federation.PeerDelivery, error)
	// Attempted notes that a row is about to be sent under an id, by which replies may
	// name its message.
	Attempted(ctx context.Context, row int64, id string, now time.Time) error
	// Postpone notes why an attempt failed, the id under which the peer may have the
	// message nevertheless, and when the next attempt is.
	Postpone(ctx context.Context, row int64, reason, unsure string, now, next time.Time) error
	// PeerTook takes a row out: the peer has it.
	PeerTook(ctx context.Context, row int64, now time.Time) error
	// Bury gives a row up, and keeps it as a [federation.DeadLetter].
	Bury(ctx context.Context, row int64, reason federation.DeadReason, why string, now time.Time) error
	// Slow returns up to limit messages that were queued at or before a time, and whose
	// sender was not told of that yet.
	Slow(ctx context.Context, queued time.Time, limit int) ([]federation.PeerDelivery, error)
	// Delayed notes that the sender of a row was told that it takes time.
	Delayed(ctx context.Context, row int64, now time.Time) error
}

// Names tells the names of the DIDs of other networks.
type Names interface {
	// Binding returns [federation.ErrNotFound] for a DID that never signed a filed step, nor
	// had one vouched for in its name.
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
	// BindingByHash finds a DID by the first characters of its [federation.DID.Hash], at
	// least ten. It returns [federation.ErrNotFound] when none or more than one fits.
	BindingByHash(ctx context.Context, prefix string) (federation.Binding, error)
}

// Originals finds the evidence behind steps by its SHA-256.
type Originals interface {
	// Evidence returns [federation.ErrNotFound] for bytes that no filed step named.
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// EvidenceOf returns the view of the handoff that named it first, and the zero View where
	// that is not known.
	EvidenceOf(ctx context.Context, digest [32]byte) (federation.View, error)
}

// Inboxes counts the steps that wait for agents, and ends their waiting.
type Inboxes interface {
	// Use returns the steps that wait for a DID, and which of them one sender signed.
	Use(ctx context.Context, to, from federation.DID) (federation.InboxUse, error)
	// Read notes that steps do not wait for a DID any more. A step that never reached its inbox
	// is no error.
	Read(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error
}

// Identity has the keys with which the registry signs, and writes DID documents. Its methods
// do not block.
type Identity interface {
	// RegistryKey returns the key that signs now.
	RegistryKey() federation.SigningKey
	// RegistryKeys returns the keys whose signatures are good now, RegistryKey first.
	RegistryKeys(now time.Time) []federation.OwnKey
	// KeyDID returns the did:key of a public key.
	KeyDID(key ed25519.PublicKey) federation.DID
	// AgentDocument returns the document of a did:web with one key and other names.
	AgentDocument(did federation.DID, key ed25519.PublicKey, others ...federation.DID) []byte
}

// Operators tells how operators treat other registries.
type Operators interface {
	// Held reports whether an operator keeps messages to another registry back. It blocks on
	// the record, and its error is that of the record.
	Held(ctx context.Context, domain string) (federation.Withheld, bool, error)
	// Mode returns the mode that an operator set for another registry, which takes precedence
	// over the configuration, or "" for none. It does not block.
	Mode(domain string) string
}

// Quotas are limits of the registry that may change while it runs.
type Quotas struct {
	Inbox                federation.InboxLimits // of the entries that are pending for one agent
	FirstContacts        federation.InboxLimits // of the entries that are held for one agent until it consents
	RegistrationsPerHour int                    // of the handles that one address registers; 0 is no limit
}

// Callers finds the participants behind the tokens of other networks.
type Callers interface {
	// Authenticate returns the participant of the token in a request, and false without a valid
	// token. It blocks on the record and returns its errors.
	Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error)
}
