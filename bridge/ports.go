package bridge

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// Ports is the part of the gateway available to every link. Other parts, such as the record, are
// arguments of a network's function Network.
type Ports struct {
	Home      federation.HomeID
	PublicURL string // public URL of this gateway, without a path or a trailing slash
	HTTP      HTTP
	// Certificate is nil if the configuration names none.
	Certificate *Certificate
	Metrics     *Metrics
	Log         *slog.Logger

	Gateway  Gateway
	Signer   Signer
	Bindings Bindings
	Evidence Evidence
	Keys     Keys
	Blocks   Blocks // nil blocks nothing; links call [Ports.CheckBlocked]
	Limits   LimitSource
	Secrets  Secrets
	PubSub   PubSub
	Presence Presence // nil if departures of users are unknown
	Messages Messages // nil if no private text is carried

	// Resolve returns the participant with a DID, the name or handle of an agent, a nick, NICK@LINK or
	// HANDLE@DOMAIN. It blocks on the record and on peers. It returns a [*ProblemError] for an unknown
	// or ambiguous name, with the candidates in its Detail.
	Resolve func(ctx context.Context, text string) (Recipient, error)
}

// HTTP configures the public HTTP listener and the gateway's HTTP client.
type HTTP struct {
	Listen       string         // listen address; "" for none
	Origins      []string       // origins of web pages that may call it
	Proxies      []netip.Prefix // trusted to name the address of a client
	MaxBodyBytes int64
	MaxWait      time.Duration // maximum time that a request waits for new data
	FetchPrivate bool          // the gateway's client may request private addresses and plain http
	MaxStreams   int           // maximum concurrent inbox watchers, of all callers together
}

// Gateway files the steps read by a link, and provides data for steps written by a link.
type Gateway interface {
	// Submit judges one inbound step and files it. After a nil error, the step is on disk. A
	// [*federation.RefusalError] is final, except one that Waits: its step is on disk too, and the
	// gateway judges it again. Any other error wraps [*federation.UnavailableError]; the link must
	// submit the step again later. Submit logs and counts the step; the link reports a refusal to
	// its peer.
	//
	// Submit waits at most one second for a missing key; then the step is deferred in the record. A
	// link may submit many steps concurrently: the gateway limits concurrent judgements. If ctx
	// ends before the judgement, nothing is filed, and the error is that of ctx.
	Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error)
	// View returns a handoff, or the zero View if it is unknown.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Expected returns a handoff as it will be if its home accepts the steps of a party that wait for
	// it. A party goes on from there: it can complete work whose accept still waits.
	Expected(ctx context.Context, id federation.HandoffID, party federation.DID) (federation.View, error)
	// Name returns the display name of a DID: the handle of an agent, the nick of an IRC user, or
	// otherwise the shortened DID.
	Name(ctx context.Context, did federation.DID) string
	// Same reports whether two DIDs belong to one agent.
	Same(ctx context.Context, a, b federation.DID) (bool, error)
	// DIDs returns the DIDs of the agent with the given DID, including that one: the DIDs that it
	// acts as, and the DIDs of the keys that the gateway keeps for it. It blocks on the record and
	// returns its errors.
	DIDs(ctx context.Context, did federation.DID) ([]federation.DID, error)
	// Owner returns the owner of a did:key whose key the gateway keeps, and any other DID
	// unchanged. Messages to the DID of a kept key go to its owner.
	Owner(ctx context.Context, did federation.DID) (federation.DID, error)
	// Place returns the place on IRC for an offer from a network without channels, and its dialect.
	// An offer to an online user is private to that user; any other offer is written in a channel
	// of the user's link. An open offer goes to the channel if a link lists it, or otherwise to the
	// first channel of the first link. Place returns the zero Place if no link reaches the
	// recipient.
	Place(ctx context.Context, from, to federation.DID, channel string) (federation.ChannelRef, federation.Dialect, error)
}

// Signer has the gateway's signing keys. Its methods do not block.
type Signer interface {
	// Own returns the current key for steps of the home itself.
	Own() federation.SigningKey
	// Kept returns the gateway's key for a name, which never changes. Names are "airc:" and a
	// handle for an agent, and "person:" and a DID for any other participant.
	Kept(name string) federation.SigningKey
}

// Bindings maps names to DIDs, and DIDs to names. Its methods block on the record and return
// its errors.
type Bindings interface {
	// Bound returns the binding of a name on a network, or [federation.ErrNotFound].
	Bound(ctx context.Context, network, name string) (federation.BoundName, error)
	// Of returns the bindings of a DID. Having none is not an error.
	Of(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
	// Seen returns the place of a DID's last signed step, or [federation.ErrNotFound].
	Seen(ctx context.Context, did federation.DID) (federation.Binding, error)
	// Participant returns the DID of the participant with the given handle or declared name, or
	// [federation.ErrNotFound].
	Participant(ctx context.Context, handle string) (federation.DID, error)
}

// Evidence stores objects to which steps refer: the original bytes of renditions, and contexts too
// large for a step. Its methods block on the record and return its errors. After a nil error the
// bytes are on disk.
type Evidence interface {
	// Keep files the evidence of a rendition.
	Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error
	// Refer replaces the inline context of a step with a reference, and stores the context. For a
	// recorded handoff, the same context always gets the same reference. A reference to a context
	// stored here gets its hash. Any other step is returned unchanged, and so is a step if there is
	// no space for its context.
	Refer(ctx context.Context, ev federation.Event) (federation.Event, error)
	// Store stores a context uploaded by a participant. Its errors include
	// [federation.ErrBlobTooLarge] and [federation.ErrBlobQuota].
	Store(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error)
}

// Keys proves DIDs with their documents, and stores their past keys.
type Keys interface {
	// Proved verifies that a DID signed a message with a key in its current document, and returns
	// the key. It blocks on the host of the document. Its error is the reason for a
	// [federation.Unverifiable] verdict.
	Proved(ctx context.Context, did federation.DID, message, signature []byte) (federation.PublicKey, federation.Verdict, error)
	// Learn records the key of a DID. The error wraps [*federation.UnavailableError] if the record
	// cannot be written now.
	Learn(ctx context.Context, report federation.KeyReport) error
	// Revoked reports whether a key of a DID was revoked at the given time.
	Revoked(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error)
}

// Blocks looks up the sources blocked by operators.
type Blocks interface {
	// Blocked counts and returns a [*federation.RefusalError] for a blocked source. It reads the
	// record only for a source with DIDs or handles; the error wraps [*federation.UnavailableError]
	// if that fails.
	Blocked(ctx context.Context, s federation.Source) error
}

// CheckBlocked returns the error of [Blocks] for a source. Gateway.Submit checks each step; a link
// checks connections, logins and all other requests before it looks up a key.
func (p Ports) CheckBlocked(ctx context.Context, s federation.Source) error {
	if p.Blocks == nil {
		return nil
	}
	return p.Blocks.Blocked(ctx, s)
}

// EvidenceOf returns the evidence of an original for a step at a venue.
func (p Ports) EvidenceOf(ctx context.Context, original signing.Original, venue string) (federation.Evidence, error) {
	return original.Evidence(ctx, p.PublicURL, venue, p.Signer.Kept(signing.EvidenceSecret))
}

// Presence reports which users are connected to the networks of this gateway.
type Presence interface {
	// Left reports whether a DID sent its last step on a network with known users, and is not
	// connected there now. It is false if that link is down or the record cannot be read. It blocks
	// on the record and on the owner of the link.
	Left(ctx context.Context, did federation.DID) bool
	// Changed notifies the other links that a user of a link left, went away or changed its nick.
	// It blocks on their owners.
	Changed(ctx context.Context, c PresenceChange)
}

// Secrets reads secret files.
type Secrets interface {
	// Secret returns the secret in a file named by the configuration. It blocks on the disk.
	Secret(file string) (string, error)
}

// PubSub wakes waiters inside one gateway. Wake-ups may be lost, so each waiter also polls.
type PubSub interface {
	// Wake wakes all subscribers of the topics.
	Wake(topics ...string)
	// Subscribe returns a channel that holds one token after a wake-up of the topic, until stop is
	// called.
	Subscribe(topic string) (wake <-chan struct{}, stop func())
}

// LimitSource has the limits of links, which a reload may change.
type LimitSource interface {
	// Current returns the current limits.
	Current() Limits
}

// Limits bound the input of a link before any signature check. Zero means no limit. Each rate is a
// token bucket that starts full with one period's worth. Limits is a constant [LimitSource].
type Limits struct {
	UserEventsPerMinute int // limit for one remote user; excess events are refused
	LinkEventsPerSecond int // limit for the whole link; beyond it the link reads more slowly, without refusals
	// ContextBytes is the maximum size of a stored context.
	ContextBytes int64
	// MaxDeadline bounds the time to the deadline of an offer; 0 means no limit.
	MaxDeadline time.Duration
	// Maximum concurrent connections at a listener: of one address ([Subnet]), and of all
	// unregistered clients.
	ConnectionsPerAddress, UnregisteredConnections int
}

// Current implements [LimitSource].
func (l Limits) Current() Limits { return l }

// LiveLimits is a replaceable [LimitSource]. The zero LiveLimits has no limits. Its methods may be
// called concurrently.
type LiveLimits struct{ now atomic.Pointer[Limits] }

// Set replaces the current limits.
func (l *LiveLimits) Set(limits Limits) { l.now.Store(&limits) }

// Current implements [LimitSource].
func (l *LiveLimits) Current() Limits {
	if now := l.now.Load(); now != nil {
		return *now
	}
	return Limits{}
}
