package admin

import (
	"net/http"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// Handoff is the present state of a handoff. In a list it has no steps.
type Handoff struct {
	ID       federation.HandoffID `json:"id"`
	Kind     federation.Kind      `json:"kind"`
	State    federation.State     `json:"state"`
	Version  federation.Version   `json:"version"`
	Home     federation.HomeID    `json:"home"`
	Venue    string               `json:"venue"`
	Dialect  federation.Dialect   `json:"dialect"`
	Offerer  federation.DID       `json:"offerer"`
	Offeree  federation.DID       `json:"offeree,omitempty"`  // absent for an offer to anyone
	Assignee federation.DID       `json:"assignee,omitempty"` // empty before an accept, a claim or an award
	Title    string               `json:"title"`
	Deadline Moment               `json:"deadline,omitzero"`
	Caps     []string             `json:"caps"`
	Opened   Moment               `json:"opened"`
	Moved    Moment               `json:"moved"`
	Erased   Moment               `json:"erased,omitzero"` // when an operator erased its content; absent if never
	// Orphaned is set if its home is another one, and was not heard from for a day or has lost
	// steps of the handoff.
	Orphaned     bool   `json:"orphaned,omitempty"`
	OrphanReason string `json:"orphan_reason,omitempty"` // why it is orphaned, for people

	Steps []Step `json:"steps,omitempty"`
	// Messages are the private messages that name the handoff, oldest first. Passports do not
	// include them.
	Messages []Message `json:"messages,omitempty"`
	// NextCursor is the cursor of the next steps; "" after the last step.
	NextCursor string `json:"next_cursor,omitempty"`
}

// ShownTitle returns the title for people, or a note that it was erased.
func (h Handoff) ShownTitle() string {
	if h.Erased.IsZero() {
		return h.Title
	}
	return "(erased " + h.Erased.String() + ")"
}

// Step is one filed step.
type Step struct {
	EventID    federation.EventID    `json:"event_id"`
	Verb       federation.Verb       `json:"verb"`
	From       federation.DID        `json:"from"`          // the signer
	For        federation.DID        `json:"for,omitempty"` // the author, if not the signer
	Name       string                `json:"name"`          // the name of the author on its network
	Network    string                `json:"network"`       // that it came from
	Link       string                `json:"link"`
	Time       Moment                `json:"time"`  // the clock that deadlines use
	Filed      Moment                `json:"filed"` // here
	Provenance federation.Provenance `json:"provenance"`
	Verdict    string                `json:"verdict"`          // unverifiable for an erased step: the signed document is deleted
	Erased     bool                  `json:"erased,omitempty"` // its content is
	Scheme     federation.Dialect    `json:"scheme"`           // of the signature
	KeyID      string                `json:"kid"`
	Note       string                `json:"note,omitempty"`
	Evidence   *Evidence             `json:"evidence,omitempty"`
	Delivered  []Delivery            `json:"delivered"`
}

// Message is private text that names a handoff.
type Message struct {
	ID   federation.EventID `json:"id"`
	From federation.DID     `json:"from"`
	To   federation.DID     `json:"to"`
	Name string             `json:"name"` // of its author
	Link string             `json:"link"` // that it came by
	Time Moment             `json:"time"`
	Text string             `json:"text"`
}

// Evidence is the location of the original of a vouched step.
type Evidence struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
}

// Delivery is the outcome of the delivery of a step to one link.
type Delivery struct {
	To    string                   `json:"to"`  // a channel or a recipient
	Via   string                   `json:"via"` // the link, "webhook" or "inbox"
	State federation.DeliveryState `json:"state"`
	Code  string                   `json:"code,omitempty"` // why it was refused or given up
	Time  Moment                   `json:"time,omitzero"`  // absent while it waits
	Hold                           // of its link, while it waits
}

// Filed is the answer to a step that was filed, now or earlier, or that is deferred.
type Filed struct {
	ID        federation.HandoffID `json:"id"`
	EventID   federation.EventID   `json:"event_id"`
	Verb      federation.Verb      `json:"verb"`
	State     federation.State     `json:"state"`
	Duplicate bool                 `json:"duplicate"`
	Lost      []string             `json:"lost"` // the parts of the request that the step cannot contain
	// Waits is the reason why the step is not filed yet. The step is on disk, and is judged again
	// when a key is available. Empty for a filed step.
	Waits string `json:"waits,omitempty"`
	// Home is the home whose ruling the step waits for; "" if it waits for none.
	Home     federation.HomeID `json:"home,omitempty"`
	Warnings []Warning         `json:"warnings,omitempty"` // absent if there is none
}

// AnswerStatus implements [route.Statused].
func (f Filed) AnswerStatus() int {
	if f.Waits != "" {
		return http.StatusAccepted
	}
	return http.StatusCreated
}

// Warning is a reason why a filed step may not be delivered.
type Warning struct {
	Code   string `json:"code"` // `never-seen`: this gateway knows no step, name, login or read inbox of the offeree
	Detail string `json:"detail"`
}

// OfferVenue is the venue of an offer, and the dialect in which to sign it.
type OfferVenue struct {
	Venue   string             `json:"venue"`
	Dialect federation.Dialect `json:"dialect"`
}

// Ask is the body of a step: its members, or the document that was signed and its
// signature.
type Ask struct {
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`      // of an offer; "" for anyone
	Channel string `json:"channel,omitempty"` // of an offer; "" if the gateway chooses
	Title   string `json:"title,omitempty"`
	Context string `json:"context,omitempty"` // JSON, or a reference to it
	// ContextHash is the hash of the content that Context refers to: "sha256:" and 64 hexadecimal
	// digits.
	ContextHash string   `json:"context_hash,omitempty"`
	Caps        []string `json:"caps,omitempty"`
	Deadline    Moment   `json:"deadline,omitzero"`
	Note        string   `json:"note,omitempty"`

	Proof  *Proof `json:"proof,omitempty"`
	Reason string `json:"reason,omitempty"` // for the log
	// Wait is the maximum time to wait for the ruling of another home, such as "30s". It is at
	// most a minute; "" for no wait.
	Wait string `json:"wait,omitempty"`
}

// Proof is a signed step. The document has all members except Channel and Reason.
type Proof struct {
	Document  string `json:"document"`
	Signature string `json:"signature"` // as on the wire
}

// Stored is the answer to stored content. A step can now refer to it.
type Stored struct {
	URL       string `json:"url"`
	SHA256    string `json:"sha256"` // "sha256:" and 64 hexadecimal digits
	ExpiresAt Moment `json:"expires_at"`
}

// Explanation is everything known about one event.
type Explanation struct {
	EventID   federation.EventID   `json:"event_id"`
	HandoffID federation.HandoffID `json:"handoff_id"`
	Version   federation.Version   `json:"version"` // position in the log; 0 for a receipt of the home
	Verb      federation.Verb      `json:"verb"`
	From      federation.DID       `json:"from"` // the signer
	// Identity describes the author of the event.
	Identity   bridge.IdentityClaim  `json:"identity"`
	For        federation.DID        `json:"for,omitempty"` // the author, if not the signer
	Provenance federation.Provenance `json:"provenance"`
	Verdict    string                `json:"verdict"`
	Why        string                `json:"why"` // the party on whose statement the verdict depends
	Document   string                `json:"document"`
	Signature  string                `json:"signature"`
	Scheme     federation.Dialect    `json:"scheme"`
	Key        ExplainedKey          `json:"key"`
	Evidence   *Evidence             `json:"evidence,omitempty"`
	State      federation.State      `json:"state"`     // of the handoff after it
	Standing   federation.State      `json:"state_now"` // of the handoff
	Hops       []Hop                 `json:"hops"`      // its stages so far, oldest first
	Next       []Next                `json:"next"`      // what happens without a further step
	Routes     []Route               `json:"routes,omitempty"`
}

// Route is the home that has the mailbox of a party of the handoff. Empty if no other homes are
// known.
type Route struct {
	DID    federation.DID            `json:"did"`
	Home   federation.HomeID         `json:"home"`             // "" while none is known
	Source federation.LocationSource `json:"source,omitempty"` // how it is known
	Since  Moment                    `json:"since,omitzero"`
}

// ExplainedKey is the key that verified, and where it was found.
type ExplainedKey struct {
	KeyID  string `json:"kid"`
	Public string `json:"public_key"` // base64url
	Source string `json:"source"`
}

// ExplainedDID describes the document of a DID as this gateway sees it.
type ExplainedDID struct {
	DID     federation.DID `json:"did"`
	Source  string         `json:"source,omitempty"`  // address of the document; empty if none was requested
	Fetched Moment         `json:"fetched,omitzero"`  // time of the fetch
	Mailbox string         `json:"mailbox,omitempty"` // address of the home that has its mailbox, according to the document
	Error   string         `json:"error,omitempty"`   // reason why there is no document
	// RefusedAt and RefusedWhy are of the last login since the start, if it was refused.
	RefusedAt  Moment `json:"login_refused,omitzero"`
	RefusedWhy string `json:"login_refused_why,omitempty"`

	Keys    []DocumentKey `json:"keys"`    // signing keys
	Skipped []SkippedKey  `json:"skipped"` // unusable keys
}

// DocumentKey is a key in the document of a DID.
type DocumentKey struct {
	KeyID  string             `json:"kid"`
	Kind   federation.KeyKind `json:"kind"`       // ed25519, p256 or secp256k1; only ed25519 signs steps, all can log in
	Public string             `json:"public_key"` // base64url
}

// SkippedKey is an unusable key in the document of a DID.
type SkippedKey struct {
	ID     string `json:"id"` // of the verification method; empty for none
	Reason string `json:"reason"`
}

// Hop is one stage of an event.
type Hop struct {
	What string `json:"what"`          // received, filed, or how a delivery ended: delivered, refused, expired, dead
	Via  string `json:"via"`           // the link, "webhook" or "inbox"; for filed the home
	Who  string `json:"who"`           // the sender of a step, or the recipient of a delivery
	Why  string `json:"why,omitempty"` // a refusal's code, or why it was given up
	Time Moment `json:"time"`
}

// Next is one pending action.
type Next struct {
	What string `json:"what"` // "deliver", "judge", or the step with which the home ends the handoff
	// Of a delivery: its recipient, its link, its attempts, and the state of the link. The time
	// is the next attempt, or the next dial of a link that is not up.
	Via       string `json:"via,omitempty"`
	Who       string `json:"who,omitempty"`
	Attempts  int    `json:"attempts"`
	Tried     string `json:"tried,omitempty"` // why the last attempt failed
	LinkState string `json:"link_state,omitempty"`
	LastError string `json:"last_error,omitempty"`
	Hold
	// Of a judgement: Attempts counts the failed attempts, LastError is the reason of the last
	// failure, and Time is the next attempt.

	// Of a step of the home: the clock that expires at that time.
	Clock federation.Clock `json:"clock,omitempty"`
	Time  Moment           `json:"time,omitzero"`
}

// Judgement is the What of a [Next] for a step that waits for a key.
const Judgement = "judge"

// Routing is the What of a [Next] for a delivery that waits for a route: no home is known to have
// the mailbox of its recipient, or that home is not a peer now.
const Routing = "route"
