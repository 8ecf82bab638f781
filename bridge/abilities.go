package bridge

import (
	"context"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Callers test a [Link] for one of these optional abilities, never for its type or network. All
// methods may be called while Run runs. See also messages.go and status.go.

// Mounted is a [Link] with permanent routes on the public HTTP listener. A reload neither adds nor
// removes such a link.
type Mounted interface {
	Link
	// Mount registers the routes of the link.
	Mount(mux *http.ServeMux)
}

// Served is a [Link] with one route on the public HTTP listener. A reload may add, replace or
// remove the link. Without a running link, the route is 404.
type Served interface {
	Link
	http.Handler
	// Pattern returns the method and the path of the route, such as "GET /irc".
	Pattern() string
}

// OnceShower is a [Link] that shows something at most once, such as a readable line. Each attempt
// is on disk before Deliver is called; the first attempt is stored with the step. A positive
// [federation.Delivery.Attempt] means that an earlier attempt may have shown it. For other links,
// an attempt is counted after it failed.
type OnceShower interface {
	Link
	// ShowsOnce reports whether this delivery shows something at most once.
	ShowsOnce(d federation.Delivery) bool
}

// ReconnectNotifier is a [Link] that can detect the return of its peer without dialling.
type ReconnectNotifier interface {
	Link
	// Reconnected returns a channel that holds a token after the peer connected or sent something.
	Reconnected() <-chan struct{}
}

// Pinned is a [Link] to a replaceable place, such as a directory. The link stays down until the
// original place is back.
type Pinned interface {
	Link
	// Unpin lets the next Run use the current place.
	Unpin()
}

// Paced is a [Link] whose peer limits the rate of deliveries.
type Paced interface {
	Link
	// PerMinute returns the peer's limit of deliveries per minute; 0 means none.
	PerMinute() int
}

// Recorder is a [Link] with its own tables in the record. Its rows about a step are filed in one
// transaction with the step, not delivered by the outbox.
type Recorder interface {
	Link
	// Effects returns the rows to write to the link's tables together with a step, and the topics
	// to wake afterwards. After an error, the step is not filed.
	Effects(ctx context.Context, d federation.Delivery) (effects []federation.Effect, topics []string, err error)
	// TextEffects is like Effects, for private text.
	TextEffects(ctx context.Context, t federation.Text) (effects []federation.Effect, topics []string, err error)
}

// ChannelLink is a [Link] with channels, in which offers from other networks can be written.
type ChannelLink interface {
	Link
	// Channels returns the configured channels as venues. The first one is the default for offers.
	Channels() []string
	// Dialect returns the dialect of offers from networks without tags.
	Dialect() federation.Dialect
	// Online reports whether the user that last signed as a DID is connected, under any nick. The
	// binding is the record's entry of that user. If the user never signed here, the binding has
	// only the DID, which counts if the network proved it.
	Online(ctx context.Context, b federation.Binding) bool
}

// MembershipLink is a [ChannelLink] that knows which users are in its channels.
type MembershipLink interface {
	ChannelLink
	// Present reports whether a user that proved a DID is in a channel now.
	Present(ctx context.Context, venue string, did federation.DID) bool
}

// PresenceLink is a [Link] that shows the users of other links.
type PresenceLink interface {
	Link
	// Follow applies a change of a user of another link. It ignores users not shown here.
	// It blocks on the owner of the link.
	Follow(ctx context.Context, c PresenceChange)
}

// PresenceChange is a change of a user of a link whose text was relayed.
type PresenceChange struct {
	Link string
	DID  federation.DID // under which the user's text was relayed

	Gone bool
	// Name is the new nick, and Now the DID under which later text is relayed: a new DID if the
	// user has no DID of its own. Both are empty unless the nick changed.
	Name string
	Now  federation.DID
	Away string // away reason; "" if the user is not away

	// Typing is "active" or "paused" for a user typing in the channel Venue, "done" for a user that
	// stopped, and "" for any other change. Message is the ID of the typing notification, which is
	// the same on each network.
	Typing, Venue, Message string
}

// Replayer is a [ChannelLink] that delivers the inboxes of its users, and reads their positions
// from them. A delivery to a channel does not end the waiting of an inbox entry.
type Replayer interface {
	ChannelLink
	// Replays does nothing; it marks the link as a Replayer.
	Replays()
}

// ClientCloser is a [Link] whose clients connect to this gateway itself.
type ClientCloser interface {
	Link
	// CloseClients closes the connections of matching clients. It does not wait for them to end.
	CloseClients(blocked func(federation.Source) bool)
}

// Eraser is a [Link] that keeps text of handoffs in journals.
type Eraser interface {
	Link
	// EraseJournals removes the histories of ended sessions with any of these handoffs, or with dry
	// only counts them. It returns the names of the running sessions, which keep their histories.
	EraseJournals(ctx context.Context, ids []federation.HandoffID, dry bool) (erased int, running []string, err error)
}

// RefusalNotifier is a [Link] that can notify a sender on its network if a deferred step is refused
// later. A network that resends a step while it is deferred has a [Notifier] instead, so that no
// sender is notified twice.
type RefusalNotifier interface {
	Link
	// NotifyRefusal notifies the sender of a step that the step was refused. It does not block on
	// the sender. An offline sender without a mailbox is never notified. After an error,
	// NotifyRefusal is called again later.
	NotifyRefusal(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error
}

// Notifier is a [Link] that can notify the signers of its steps about later outcomes, and its
// participants about a disabled webhook.
type Notifier interface {
	Link
	// Notify notifies the reader, and returns once the notice is sent or can never be sent. An
	// error means that the reader is offline; Notify is called again later.
	Notify(ctx context.Context, n federation.Notice) error
}

// Pusher is a [Link] to participants that may have webhooks.
type Pusher interface {
	Link
	// Pushes reports whether the owner of a webhook is a participant of this link.
	Pushes(h federation.Webhook) bool
	// Write returns the content to post for a push: its kind, as words separated by dots, and JSON.
	Write(ctx context.Context, h federation.Webhook, p federation.Push) (kind string, data []byte, err error)
	// Taken records a received push in the tables of the link, before the record does.
	Taken(ctx context.Context, h federation.Webhook, p federation.Push) error
}

// Poster is a [Pusher] whose network has its own form of posts. Its Write is not called.
type Poster interface {
	Pusher
	// Posts returns the posts of a push, in order. The push is delivered once all are accepted;
	// otherwise all are repeated. Posts returns the errors of the record, or an error that wraps
	// [ErrBroken], which makes the push a dead letter.
	Posts(ctx context.Context, h federation.Webhook, p federation.Push) ([]Post, error)
}

// Post is one request to the address of a webhook.
type Post struct {
	Header http.Header
	Body   []byte
}

// InboxReader is a [Link] for participants without a connection, which read their inbox and their
// notices from the record.
type InboxReader interface {
	Link
	// ReadsInbox does nothing; it marks the link as an InboxReader.
	ReadsInbox()
}

// Authenticator is a [Link] that issues tokens to participants for its HTTP requests. Other links
// of the HTTP listener also accept such a token.
type Authenticator interface {
	Link
	// Authenticate returns the participant of the token in a request, or false for an invalid token
	// or an ended session. It blocks on the record and returns its errors.
	Authenticate(r *http.Request) (who Authenticated, ok bool, err error)
}

// Authenticated is the participant behind a token.
type Authenticated struct {
	DID     federation.DID
	Session federation.Session
}

// Registrar is a [Link] that gives participants handles at a domain of this gateway.
type Registrar interface {
	Link
	Domain() string
	// HandlesOf returns the handles of a DID of another network. The first name is the
	// earliest known name of the DID, or "" if it was never seen.
	HandlesOf(did federation.DID, first string) []string
	// Unverified returns the handle under which the link stores messages from an unverified sender
	// that uses the given handle.
	Unverified(handle string) string
	// AllowHeld delivers one message held for its recipient's consent. The consent does not change.
	// It returns [federation.ErrNotFound] if the message is not held, and otherwise the errors of
	// [Messages.Say].
	AllowHeld(ctx context.Context, id int64, now time.Time) error
}

// Peered is a [Link] with peers of its own, such as other registries. Deliveries to them wait
// in the record, in one queue per peer.
type Peered interface {
	Link
	// Peers returns the configured peers.
	Peers() []Peer
	// CheckPeer returns the reason why a name cannot be the name of a peer, or nil.
	CheckPeer(name string) error
	// Backlogs returns the queue of each configured peer, even if empty, and the queues of all
	// other peers together as [OtherPeers] if there are any.
	Backlogs(ctx context.Context) ([]federation.PeerBacklog, error)
}

// Peer is one peer of a [Peered] link.
type Peer struct {
	Name    string // unique among the peers of the link
	URL     string
	Mode    string // the operator's policy, such as "allow" or "block"
	Dialect string // by the configuration; "" for none
	// Unsigned is the policy for unsigned messages from the peer; "" for none.
	Unsigned string
}

// Introducer is a [Link] with peers whose participants are addressed by name.
type Introducer interface {
	Link
	// Introduce is like [Messages.Introduce], for the peers of the link.
	Introduce(ctx context.Context, address string) (federation.DID, error)
}

// OtherPeers is the label of all unconfigured peers. A remote party can invent names, but labels
// must come from closed sets.
const OtherPeers = "others"

// KeyServer is a [Link] to a server that publishes the keys of its users.
type KeyServer interface {
	Link
	// KeyServer returns the base URL of the interface that publishes the keys.
	KeyServer() string
}

// Homed is a [Link] to another home, which orders the handoffs opened there.
type Homed interface {
	Link
	Home() federation.HomeID
}

// PeerHome is a [Link] to another gateway of the federation. It gets a step if a party of the
// step has its mailbox there; its Carries is not called. An offer to a participant of a
// PeerHome is private here, and the other home places it.
type PeerHome interface {
	Homed
	// Houses asks the other home whether it has the mailbox of a DID. It blocks on the network.
	Houses(ctx context.Context, did federation.DID) (bool, error)
}

// LossReporter is a [Homed] that knows the handoffs whose home has lost steps, for example after a
// restore of an older record.
type LossReporter interface {
	Homed
	// LostSteps reports whether the other home has lost steps of a handoff, and describes the loss.
	LostSteps(id federation.HandoffID) (why string, lost bool)
}

// Explainer is a [Link] that can list the settings that the other side needs.
type Explainer interface {
	Link
	// Explain returns these settings as text for the other operator, without secrets. It needs no
	// connection.
	Explain() string
}
