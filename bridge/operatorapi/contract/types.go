package contract

import (
	"encoding/json"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Moment is a time as operators read it: RFC 3339 in UTC with milliseconds.
type Moment time.Time

// momentFormat is that of every time in an answer.
const momentFormat = "2006-01-02T15:04:05.000Z"

// String returns the moment as it is written; "" for the zero one.
func (m Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return time.Time(m).UTC().Format(momentFormat)
}

// IsZero reports whether there is no time.
func (m Moment) IsZero() bool { return time.Time(m).IsZero() }

// MarshalJSON implements [json.Marshaler].
func (m Moment) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Moment) UnmarshalJSON(text []byte) error {
	var t time.Time
	if string(text) != `""` {
		if err := json.Unmarshal(text, &t); err != nil {
			return err
		}
	}
	*m = Moment(t)
	return nil
}

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"` // "" after the last
}

// Act is what the body of every change may have, and all that most of them have.
type Act struct {
	Reason string `json:"reason,omitempty"`
	// DryRun asks what would be answered, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// Acted is how many things a change was made to, or with DryRun would be.
type Acted struct {
	Changed int  `json:"changed"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// Handoff is a handoff as it stands. In a list it has no steps.
type Handoff struct {
	ID       federation.HandoffID `json:"id"`
	Kind     federation.Kind      `json:"kind"`
	State    federation.State     `json:"state"`
	Version  federation.Version   `json:"version"`
	Home     federation.HomeID    `json:"home"`
	Venue    string               `json:"venue"`
	Dialect  federation.Dialect   `json:"dialect"`
	Offerer  federation.DID       `json:"offerer"`
	Offeree  federation.DID       `json:"offeree,omitempty"`  // not there of one that is open to anyone
	Assignee federation.DID       `json:"assignee,omitempty"` // empty before an accept, a claim or an award
	Title    string               `json:"title"`
	Deadline Moment               `json:"deadline,omitzero"`
	Caps     []string             `json:"caps"`
	Opened   Moment               `json:"opened"`
	Moved    Moment               `json:"moved"`
	// Orphaned says that its home, another one, was not heard for a day, or has lost steps of it.
	Orphaned     bool   `json:"orphaned,omitempty"`
	OrphanReason string `json:"orphan_reason,omitempty"` // for people

	Steps []Step `json:"steps,omitempty"`
	// NextCursor is where the steps go on; "" after the last.
	NextCursor string `json:"next_cursor,omitempty"`
}

// Step is one filed step.
type Step struct {
	EventID    federation.EventID    `json:"event_id"`
	Verb       federation.Verb       `json:"verb"`
	From       federation.DID        `json:"from"`          // the signer
	For        federation.DID        `json:"for,omitempty"` // whose step it is, where that is not the signer's
	Name       string                `json:"name"`          // the name of the author on its network
	Network    string                `json:"network"`       // that it came from
	Link       string                `json:"link"`
	Time       Moment                `json:"time"`  // the clock that deadlines use
	Filed      Moment                `json:"filed"` // here
	Provenance federation.Provenance `json:"provenance"`
	Verdict    string                `json:"verdict"`
	Scheme     federation.Dialect    `json:"scheme"` // in which it was signed
	KeyID      string                `json:"kid"`
	Note       string                `json:"note,omitempty"`
	Evidence   *Evidence             `json:"evidence,omitempty"`
	Delivered  []Delivery            `json:"delivered"`
}

// Evidence is where the original of a vouched step is.
type Evidence struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
}

// Delivery is what became of a step on its way to one link.
type Delivery struct {
	To    string                   `json:"to"`  // a channel or a recipient
	Via   string                   `json:"via"` // the link, "webhook" or "inbox"
	State federation.DeliveryState `json:"state"`
	Code  string                   `json:"code,omitempty"` // of a refused one, or why it was given up
	Time  Moment                   `json:"time,omitzero"`  // not there while it waits
}

// Filed is the answer to a step that was filed, now or before, or that waits.
type Filed struct {
	ID        federation.HandoffID `json:"id"`
	EventID   federation.EventID   `json:"event_id"`
	Verb      federation.Verb      `json:"verb"`
	State     federation.State     `json:"state"`
	Duplicate bool                 `json:"duplicate"`
	Lost      []string             `json:"lost"` // what the step could not carry of the request
	// Waits says why the step is not filed yet: it is on disk, and judged again once a
	// key is there. Empty for a step that is filed.
	Waits string `json:"waits,omitempty"`
	// Home is the home whose ruling the step waits for, "" for none.
	Home federation.HomeID `json:"home,omitempty"`
}

// Place is where an offer would be written, and in which dialect it is to be
// signed.
type Place struct {
	Venue   string             `json:"venue"`
	Dialect federation.Dialect `json:"dialect"`
}

// Ask is the body of a step: its members, or the document that was signed and its
// signature.
type Ask struct {
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`      // of an offer; "" for anyone
	Channel string `json:"channel,omitempty"` // of an offer; "" where the gateway is to choose
	Title   string `json:"title,omitempty"`
	Context string `json:"context,omitempty"` // JSON, or a reference to it
	// ContextHash is that of what Context refers to: "sha256:" and 64 hexadecimal digits.
	ContextHash string   `json:"context_hash,omitempty"`
	Caps        []string `json:"caps,omitempty"`
	Deadline    Moment   `json:"deadline,omitzero"`
	Note        string   `json:"note,omitempty"`

	Proof  *Proof `json:"proof,omitempty"`
	Reason string `json:"reason,omitempty"` // for the log
	// Wait is how long to wait for the ruling of another home, such as "30s": a minute at most.
	Wait string `json:"wait,omitempty"`
}

// Proof is a signed step. The document has all members except Channel and Reason.
type Proof struct {
	Document  string `json:"document"`
	Signature string `json:"signature"` // as on the wire
}

// Stored is the answer to content that a step may refer to now.
type Stored struct {
	URL       string `json:"url"`
	SHA256    string `json:"sha256"` // as the hash of a context: "sha256:" and 64 hexadecimal digits
	ExpiresAt Moment `json:"expires_at"`
}

// Explanation is all that is known of one event.
type Explanation struct {
	EventID   federation.EventID   `json:"event_id"`
	HandoffID federation.HandoffID `json:"handoff_id"`
	Version   federation.Version   `json:"version"` // position in the log; 0 for a receipt of the home
	Verb      federation.Verb      `json:"verb"`
	From      federation.DID       `json:"from"` // the signer
	// Identity is what may be said of whose step it is.
	Identity   bridge.IdentityClaim  `json:"identity"`
	For        federation.DID        `json:"for,omitempty"` // whose step it is, where that is not the signer's
	Provenance federation.Provenance `json:"provenance"`
	Verdict    string                `json:"verdict"`
	Why        string                `json:"why"` // on whose word the verdict rests
	Document   string                `json:"document"`
	Signature  string                `json:"signature"`
	Scheme     federation.Dialect    `json:"scheme"`
	Key        ExplainedKey          `json:"key"`
	Evidence   *Evidence             `json:"evidence,omitempty"`
	State      federation.State      `json:"state"`     // of the handoff after it
	Standing   federation.State      `json:"state_now"` // of the handoff
	Hops       []Hop                 `json:"hops"`      // its way so far, oldest first
	Next       []Next                `json:"next"`      // what happens without a further step
	Routes     []Route               `json:"routes,omitempty"`
}

// Route is where a party of the handoff has its mailbox, where other homes are known.
type Route struct {
	DID    federation.DID            `json:"did"`
	Home   federation.HomeID         `json:"home"`             // "" while no home is known to have it
	Source federation.LocationSource `json:"source,omitempty"` // how that is known
	Since  Moment                    `json:"since,omitzero"`
}

// ExplainedKey is the key that verified, and where it was found.
type ExplainedKey struct {
	KeyID  string `json:"kid"`
	Public string `json:"public_key"` // base64url
	Source string `json:"source"`
}

// Hop is one station of an event.
type Hop struct {
	What string `json:"what"`          // received, filed, or how a delivery ended: delivered, refused, expired, dead
	Via  string `json:"via"`           // the link, "webhook" or "inbox"; for filed the home
	Who  string `json:"who"`           // the sender of a step, or the recipient of a delivery
	Why  string `json:"why,omitempty"` // a refusal's code, or why it was given up
	Time Moment `json:"time"`
}

// Next is one thing to come.
type Next struct {
	What string `json:"what"` // "deliver", "judge", or the step by which the home ends the handoff
	// Of a delivery: its recipient, its link, its attempts, and the state of the link. The time
	// is the next attempt, or the next dial of a link that is not up.
	Via       string `json:"via,omitempty"`
	Who       string `json:"who,omitempty"`
	Attempts  int    `json:"attempts"`
	Tried     string `json:"tried,omitempty"` // why the last attempt failed
	LinkState string `json:"link_state,omitempty"`
	LastError string `json:"last_error,omitempty"`
	// Of a judgement, Attempts counts the vain ones, LastError is why the last one was, and
	// Time is when it comes.

	// Of a step of the home: the clock that runs out then.
	Clock federation.Clock `json:"clock,omitempty"`
	Time  Moment           `json:"time,omitzero"`
}

// Arrived is one step in an inbox.
type Arrived struct {
	Cursor     federation.Cursor     `json:"cursor"` // after it
	HandoffID  federation.HandoffID  `json:"handoff_id"`
	EventID    federation.EventID    `json:"event_id"`
	Verb       federation.Verb       `json:"verb"`
	From       federation.DID        `json:"from"` // whose step it is
	Name       string                `json:"name"`
	State      federation.State      `json:"state"` // of the handoff after it
	Filed      Moment                `json:"filed"`
	Provenance federation.Provenance `json:"provenance"`
	Title      string                `json:"title,omitempty"`
	Note       string                `json:"note,omitempty"`
}

// Ack is the body of an acknowledgement.
type Ack struct {
	Cursor federation.Cursor `json:"cursor"`
	Device string            `json:"device,omitempty"`
	Reason string            `json:"reason,omitempty"`
}

// Move is the body of a request to give a mailbox to another home.
type Move struct {
	Act

	Home string `json:"home"`
}

// Moved is what came of that.
type Moved struct {
	DID     federation.DID `json:"did"`
	Home    string         `json:"home"`    // where its mailbox is now
	Taken   int            `json:"taken"`   // entries that went along
	Waiting int            `json:"waiting"` // entries that are still here
}

// Link is a link as it stands.
type Link struct {
	Name      string `json:"name"`
	Network   string `json:"network"`
	State     string `json:"state"`
	LastHeard Moment `json:"last_heard,omitzero"`
	Waiting   int    `json:"waiting"`         // steps that it is owed
	Oldest    Moment `json:"oldest,omitzero"` // when the oldest of them was filed
	NextDial  Moment `json:"next_dial,omitzero"`
	LastError string `json:"last_error"`

	*LinkDetail // of one link alone
}

// LinkDetail is what is told of a link that was asked for by its name.
type LinkDetail struct {
	Negotiated  map[string]string `json:"negotiated"`
	Channels    []string          `json:"channels"`
	Limits      LinkLimits        `json:"limits"`
	SkewSeconds float64           `json:"skew_seconds"` // by which our clock is ahead
	NotCarried  []string          `json:"not_carried"`
	Obstacles   []string          `json:"obstacles,omitempty"` // what keeps deliveries or receipts from passing
}

// LinkLimits is what a link lets in. Zero is no limit.
type LinkLimits struct {
	UserEventsPerMinute int `json:"user_events_per_minute"`
	LinkEventsPerSecond int `json:"link_events_per_second"`
}

// Waiting is a delivery that is still to be made.
type Waiting struct {
	ID        string               `json:"id"` // of the event; of a message that is no step its own
	Link      string               `json:"link,omitempty"`
	Peer      string               `json:"peer,omitempty"` // another registry
	HandoffID federation.HandoffID `json:"handoff_id,omitzero"`
	Verb      federation.Verb      `json:"verb,omitempty"`
	Queued    Moment               `json:"queued"`
	Attempt   int                  `json:"attempt"`
	Next      Moment               `json:"next,omitzero"` // not there of one that is tried at once, or waits behind another
	Behind    bool                 `json:"behind"`        // another one of its handoff goes first
	LastError string               `json:"last_error"`
	Held      bool                 `json:"held"` // an operator holds its destination
}

// Shape is how much waits for one destination, by age.
type Shape struct {
	Link   string `json:"link,omitempty"`
	Peer   string `json:"peer,omitempty"`
	Rows   int    `json:"rows"`
	Ages   []int  `json:"ages"` // younger than 1m, 5m, 1h, 24h, and older
	Oldest Moment `json:"oldest,omitzero"`
	Held   bool   `json:"held"`
	Reason string `json:"reason,omitempty"` // why it is held
}

// DeadLetter is a delivery that was given up. In a list it has no attempts and no raw
// bytes.
type DeadLetter struct {
	ID        int64                 `json:"id"`
	Link      string                `json:"link,omitempty"`
	Peer      string                `json:"peer,omitempty"` // another registry
	Reason    federation.DeadReason `json:"reason"`
	LastError string                `json:"last_error"`
	EventID   federation.EventID    `json:"event_id,omitzero"`
	HandoffID federation.HandoffID  `json:"handoff_id,omitzero"`
	Verb      federation.Verb       `json:"verb,omitempty"`
	Message   string                `json:"message,omitempty"` // id of the message that a registry was owed
	Attempt   int                   `json:"attempt"`
	Queued    Moment                `json:"queued"`
	Died      Moment                `json:"died"`
	Replayed  Moment                `json:"replayed,omitzero"`

	*DeadDetail
}

// DeadDetail is what one dead letter says of itself when it is read alone.
type DeadDetail struct {
	Verdict   string `json:"verdict"` // on the signature, when it was filed; "" where it cannot be read
	Raw       string `json:"raw"`     // what was signed, or the document of a message; base64 where it is not UTF-8
	Signature string `json:"signature,omitempty"`
	Attempts  []Try  `json:"attempts"` // the last of them
	Fix       string `json:"fix"`      // what may be done about it
	Broken    string `json:"broken,omitempty"`
}

// Try is one attempt that failed.
type Try struct {
	Number int    `json:"number"`
	Time   Moment `json:"time"`
	Error  string `json:"error"`
}

// Webhook is an address that the steps in an inbox are posted to.
type Webhook struct {
	ID       string `json:"id"`
	DID      string `json:"did"`
	Agent    string `json:"agent,omitempty"` // handle, of one that gets an agent's messages
	URL      string `json:"url"`
	Since    Moment `json:"since"`
	Waiting  int    `json:"waiting"`
	Oldest   Moment `json:"oldest,omitzero"` // of what waits
	Dead     int    `json:"dead"`
	Disabled Moment `json:"disabled,omitzero"`
	Why      string `json:"disabled_why,omitempty"`

	*WebhookDetail
}

// WebhookDetail is what one webhook says of itself when it is read alone.
type WebhookDetail struct {
	Deliveries []WebhookDelivery `json:"deliveries"` // the newest first
	NextCursor string            `json:"next_cursor"`
}

// WebhookDelivery is one thing that a webhook is owed, or was.
type WebhookDelivery struct {
	Of        string                   `json:"of"` // id of an event, or of a message that is none
	HandoffID federation.HandoffID     `json:"handoff_id,omitzero"`
	Verb      federation.Verb          `json:"verb,omitempty"`
	State     federation.DeliveryState `json:"state"`
	Attempt   int                      `json:"attempt"`
	Queued    Moment                   `json:"queued"`
	Next      Moment                   `json:"next,omitzero"`
	Ended     Moment                   `json:"ended,omitzero"`
	LastError string                   `json:"last_error,omitempty"`
}

// Peer is another registry, or another home.
type Peer struct {
	Name      string `json:"name"` // its domain, or its home.name
	Network   string `json:"network"`
	Mode      string `json:"mode"`             // allow, limit, hold or block
	Origin    string `json:"origin"`           // of the mode
	Source    string `json:"source,omitempty"` // of the peer: configuration, or record where an operator added it
	URL       string `json:"url,omitempty"`
	Dialect   string `json:"dialect,omitempty"` // of a registry
	Waiting   int    `json:"waiting"`           // messages that it has not taken, or steps that it has not receipted
	Oldest    Moment `json:"oldest,omitzero"`
	Dead      int    `json:"dead"`
	Held      bool   `json:"held"`
	LastError string `json:"last_error,omitempty"`

	*PeerHome // of a home
}

// PeerHome is what is known of another home alone.
type PeerHome struct {
	State       string  `json:"state"` // of the link to it: up, dialling or down
	Path        string  `json:"path"`  // relay or https
	LastHeard   Moment  `json:"last_heard,omitzero"`
	SkewSeconds float64 `json:"skew_seconds"` // by which our clock is ahead of its clock
	Forks       []Fork  `json:"forks"`        // newest first
	Doubts      []Doubt `json:"doubts"`
}

// Doubt is what a home said and was not believed in.
type Doubt struct {
	Kind  federation.OffenceKind `json:"kind"` // voice, mailbox, ruling or step
	Times int                    `json:"times"`
	First Moment                 `json:"first"`
	Last  Moment                 `json:"last"`
	Why   string                 `json:"why"` // the last time
}

// Fork is a handoff of which a home tells two histories. Both are kept.
type Fork struct {
	Handoff federation.HandoffID `json:"handoff"`
	Version federation.Version   `json:"version"` // at which they part
	Found   Moment               `json:"found"`
}

// Peering is the body of a request to add another home.
type Peering struct {
	Act

	URL string `json:"url"` // where it is reached, without a path
	// AllowPrivate says that the operator knows that the address is a private one, or
	// without TLS.
	AllowPrivate bool `json:"allow_private,omitempty"`
}

// Peered is what was found out about another home, and what came of adding it.
type Peered struct {
	Peer   Peer    `json:"peer"`
	Checks []Check `json:"checks"`
	// Canary is what became of a handoff that was offered to it; nil where none was.
	Canary *Canary `json:"canary,omitempty"`
}

// Canary is a handoff from this home to another one, which that completes by itself.
type Canary struct {
	Handoff federation.HandoffID `json:"handoff"`
	Green   bool                 `json:"green"`
	Took    string               `json:"took"`             // a duration
	Reason  string               `json:"reason,omitempty"` // where it is not green
}

// Mode is the body of a change of mode.
type Mode struct {
	Act

	Mode string `json:"mode"`
	New  bool   `json:"new,omitempty"` // the name is that of a registry that is not known yet
}

// Compared is the result of a comparison of histories with another home.
type Compared struct {
	Compared int    `json:"compared"` // handoffs
	Sent     int    `json:"sent"`     // handoffs of this home of which the other one lacked steps, and has them now
	Lost     []Loss `json:"lost"`
}

// Loss is a handoff of the other home of which that has lost steps.
type Loss struct {
	Handoff federation.HandoffID `json:"handoff_id"`
	Version federation.Version   `json:"version"` // steps that are here
	Have    federation.Version   `json:"have"`    // steps that the other home has
}

// Check is what was found out about one thing.
type Check struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or FAIL
	Detail string `json:"detail"`
}

// Binding is a name that stands for a DID.
type Binding struct {
	Network string         `json:"network"`
	Name    string         `json:"name"`
	DID     federation.DID `json:"did"`
	Vouch   bool           `json:"vouch"`
	Origin  string         `json:"origin"`
	Since   Moment         `json:"since,omitzero"` // of one in the record
}

// Bind is the body of a binding.
type Bind struct {
	Act

	DID   string `json:"did"`
	Vouch bool   `json:"vouch"`
}

// Block is a source that an operator blocked.
type Block struct {
	What    string               `json:"what"`
	Kind    federation.BlockKind `json:"kind"`
	Reason  string               `json:"reason"`
	Since   Moment               `json:"since"`
	Expires Moment               `json:"expires"` // "" where it holds until it is removed
}

// BlockAsk asks for a block.
type BlockAsk struct {
	Act

	What  string `json:"what"`          // see [federation.ParseBlock]
	For   string `json:"for,omitempty"` // a duration; "" until it is removed
	Purge bool   `json:"purge,omitempty"`
}

// Purged counts what a purge ended and dropped, or would.
type Purged struct {
	federation.Purged

	Handoffs int `json:"handoffs"` // that the source had offered
}

// Blocked is a block that was made just now, or would be.
type Blocked struct {
	Block

	Purged *Purged `json:"purged,omitempty"` // nil where nothing was to be purged
	DryRun bool    `json:"dry_run,omitempty"`
}

// Sender is what came from one DID, address or link.
type Sender struct {
	Name    string `json:"name"`
	Steps   int    `json:"steps"`   // all that were judged
	Refused int    `json:"refused"` // of those
	Limited int    `json:"limited"` // refused because there were too many
	Blocked int    `json:"blocked"` // steps, logins and connections that an operator's block refused
	Bytes   int64  `json:"bytes"`   // of the documents and evidence of all steps
}

// Rotation asks for another key.
type Rotation struct {
	Overlap string `json:"overlap,omitempty"` // a duration; how long what the old key signed is good
	Reason  string `json:"reason,omitempty"`
}

// Token is an operator token, without the token itself.
type Token struct {
	Name    string           `json:"name"`
	Scope   federation.Scope `json:"scope"`
	Created Moment           `json:"created"`
	Expires Moment           `json:"expires"`
}

// TokenAsk asks for a token.
type TokenAsk struct {
	Name   string           `json:"name,omitempty"` // "": the scope and some digits
	Scope  federation.Scope `json:"scope"`
	TTL    string           `json:"ttl,omitempty"` // a duration, at most a year; 720h
	Reason string           `json:"reason,omitempty"`
}

// NewToken is a token that was made just now.
type NewToken struct {
	Token

	Text string `json:"token"` // told this once
}

// Change is something that an operator did.
type Change struct {
	Time    Moment `json:"time"`
	Actor   string `json:"actor"`
	What    string `json:"what"`
	Subject string `json:"subject"`
	Reason  string `json:"reason"`
}

// Key is the public part of a key of the gateway.
type Key struct {
	Name       string         `json:"name"`
	PublicKey  string         `json:"public_key,omitempty"` // base64url; none of a secret
	KeyID      string         `json:"kid"`
	Since      string         `json:"since,omitempty"` // RFC 3339; empty where a signer keeps the key
	State      string         `json:"state"`
	Until      string         `json:"until,omitempty"`       // of a key that was rotated
	DID        federation.DID `json:"did,omitempty"`         // of the server
	DIDKey     federation.DID `json:"did_key,omitempty"`     // of the server
	EndpointID string         `json:"endpoint_id,omitempty"` // of the endpoint
}

// The pages of the lists.
//
//nolint:revive // their names say of what they are pages
type (
	ArrivedPage    = Page[Arrived]
	BindingPage    = Page[Binding]
	BlockPage      = Page[Block]
	ChangePage     = Page[Change]
	CheckPage      = Page[Check]
	DeadLetterPage = Page[DeadLetter]
	HandoffPage    = Page[Handoff]
	LinkPage       = Page[Link]
	PeerPage       = Page[Peer]
	SenderPage     = Page[Sender]
	ShapePage      = Page[Shape]
	TokenPage      = Page[Token]
	WaitingPage    = Page[Waiting]
	WebhookPage    = Page[Webhook]
)

// Empty is an answer without members.
type Empty struct{}

// Problem is why a request failed.
type Problem = bridge.ProblemError //nolint:errname // the contract has this name

// Prefix is the path of all routes.
const Prefix = "/operator/v1/"

// MaxLimit is the largest number of items of one page.
const MaxLimit = 500

// Judgement is the What of a [Next] that is a step which waits for a key.
const Judgement = "judge"

// Routing is the What of a [Next] that is a delivery which waits for a route: no home is known to
// have the mailbox of its recipient, or that home is no peer now.
const Routing = "route"

// PeersParameter is the parameter of /readyz that asks for the links to other homes too.
const PeersParameter = "peers"

// Readiness is the answer of /readyz, a route outside the contract.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // what does not work, a sentence each
}
