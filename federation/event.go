package federation

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"
)

// Kind names a family of handoffs with one lifecycle. Package lifecycle defines the built-in kinds.
type Kind string

// Handoff is the default kind.
const Handoff Kind = "handoff"

// Verb names a step.
type Verb string

// The verbs of kind [Handoff]. Every kind has offer and confirm. The other verbs of a kind are rows of
// its table and have no constant.
const (
	Offer    Verb = "offer"
	Accept   Verb = "accept"
	Decline  Verb = "decline"
	Claim    Verb = "claim"
	Progress Verb = "progress"
	Complete Verb = "complete"
	Fail     Verb = "fail"
	Cancel   Verb = "cancel"
	Expire   Verb = "expire"
	// Confirm is the home's receipt for a filed step. It is not a step and does not change a handoff.
	Confirm Verb = "confirm"
)

// State is the state of a handoff.
type State string

// The states of kind [Handoff], each with the party that acts next.
const (
	None      State = ""         // nothing filed
	Offered   State = "offered"  // to one DID; the offeree answers
	Open      State = "open"     // to anyone; the first claim wins
	Assigned  State = "assigned" // the assignee works
	Completed State = "completed"
	Failed    State = "failed"
	Declined  State = "declined"
	Cancelled State = "cancelled"
	Expired   State = "expired"
)

// Role is the role of a DID in a handoff.
type Role string

// The roles. System is the home itself.
const (
	Offerer  Role = "offerer"
	Offeree  Role = "offeree"
	Assignee Role = "assignee"
	Anyone   Role = "anyone"
	System   Role = "system"
)

// Provenance tells which key vouches for an event. It is never upgraded on the route.
type Provenance string

// The provenances.
const (
	Signed  Provenance = "signed"
	Vouched Provenance = "vouched" // by a gateway for its user, with [Evidence]
)

// Dialect names the set of tags of a signed step.
type Dialect string

// The dialects.
const (
	HandoffTags Dialect = "handoff" // handoff RFC
	ActTags     Dialect = "act"     // deployed servers
)

// Event is one step: its signed content, and this gateway's data about its arrival.
//
// A codec fills the members from Title on from the signed Fields. A step that the gateway has not signed
// yet has no Fields.
type Event struct {
	ID      EventID   `json:"id"`      // zero until it is created or set by the signer
	Handoff HandoffID `json:"handoff"` // equal to ID in an offer
	Kind    Kind      `json:"kind"`
	Verb    Verb      `json:"verb"`
	From    DID       `json:"from"`
	For     DID       `json:"for,omitempty"` // DID that a vouched step represents; "" if it is From
	To      DID       `json:"to,omitempty"`  // of an offer; empty if anyone may claim it
	Venue   string    `json:"venue"`         // a channel, or the sorted pair of a direct exchange
	Dialect Dialect   `json:"dialect"`

	Title       string    `json:"title,omitempty"`
	Context     string    `json:"context,omitempty"` // JSON, or a reference to it
	ContextHash string    `json:"context_hash,omitempty"`
	Caps        []string  `json:"caps,omitempty"`
	Deadline    time.Time `json:"deadline,omitzero"`
	Note        string    `json:"note,omitempty"`
	ReplyTo     string    `json:"reply_to,omitempty"` // message ID or event ID
	Priority    string    `json:"priority,omitempty"`
	Subject     EventID   `json:"subject,omitzero"` // confirmed by a [Confirm]

	BidDeadline time.Time `json:"bid_deadline,omitzero"`
	Accepts     EventID   `json:"accepts,omitzero"`  // bid accepted by an award
	Replaces    HandoffID `json:"replaces,omitzero"` // closed handoff replaced by an offer

	// Fields holds every signed field under its wire name, known or not. Stamped is true if the
	// signature also covers ID.
	Fields  map[string]string `json:"fields,omitempty"`
	Stamped bool              `json:"stamped,omitempty"`

	Provenance Provenance `json:"provenance"`
	Signature  Signature  `json:"signature"`
	Evidence   *Evidence  `json:"evidence,omitempty"` // nil unless Vouched
	Erased     *Erasure   `json:"erased,omitempty"`   // nil unless erased

	Arrival Arrival `json:"arrival"`
}

// Arrival describes the first arrival of a step here. It is not signed.
type Arrival struct {
	Network string `json:"network"` // metric label, such as "spanningtree"
	Link    string `json:"link"`    // the step is never sent back there
	// Home is the home at the other end of the link, or "". Offers from there open at that home, which
	// checked the IDs of its users' steps against its own clock.
	Home HomeID `json:"home,omitempty"`
	// Path lists the homes that forwarded the step, in order. The step is not sent back to them.
	Path []HomeID `json:"path,omitempty"`
	// RemoteVenue is true if the step was written on a network of Home without a link here. Its venue
	// cannot be compared.
	RemoteVenue bool `json:"abroad,omitempty"`
	// ReadsInbox is true if the signer reads its inbox and notices from the record, not on the link.
	ReadsInbox bool      `json:"reads_inbox,omitempty"`
	Name       string    `json:"name,omitempty"` // display name of the signer
	User       string    `json:"-"`
	MessageID  string    `json:"message_id,omitempty"`
	Received   time.Time `json:"received"`
	// Address is the client address of the signer in CIDR form, an IPv4 /32 or an IPv6 /64, or "" if
	// unknown. It is never stored.
	Address string `json:"-"`
	// ActingFor is the party that sent the step, if it signed with another of its DIDs.
	ActingFor DID `json:"party,omitempty"`
	// Recipient is the recipient of an offer to the DID of a key kept by this gateway.
	Recipient DID `json:"recipient,omitempty"`
	// ViaCommand is true if a user sent the step as a command, which the user's network does not show.
	ViaCommand bool `json:"command,omitempty"`
	// Orphaned is true if a local operator ended an orphaned handoff of another home.
	Orphaned bool `json:"orphaned,omitempty"`
	// Voucher is Home's statement that the step belongs to its signer. It is nil unless the step needs
	// it and Home is not the home of the handoff.
	Voucher *Voucher `json:"voucher,omitempty"`
	// AcceptedFrom is the actor of the step named by Accepts, if that step is acceptable and in this
	// handoff.
	AcceptedFrom DID `json:"accepted,omitempty"`
	// Place is the place on a chat network if Venue does not show it: for an offer from elsewhere, or a
	// channel with another name on its link.
	Place ChannelRef `json:"place,omitzero"`
}

// ChannelRef is a place on a chat network.
type ChannelRef struct {
	Link  string `json:"link"`  // empty for a channel of several links
	Venue string `json:"venue"` // see [Event]
}

// Private reports whether a venue is a private exchange.
func Private(venue string) bool { return strings.HasPrefix(venue, privatePrefix) }

// PrivateVenue returns the venue of a private exchange.
func PrivateVenue(a, b DID) string {
	return privatePrefix + string(min(a, b)) + "," + string(max(a, b))
}

// Parties returns the two sorted DIDs of a private venue, or false for any other venue.
func Parties(venue string) (a, b DID, ok bool) {
	pair, private := strings.CutPrefix(venue, privatePrefix)
	first, second, two := strings.Cut(pair, ",")
	a, errA := ParseDID(first)
	b, errB := ParseDID(second)
	if !private || !two || errA != nil || errB != nil || venue != PrivateVenue(a, b) {
		return "", "", false
	}
	return a, b, true
}

const privatePrefix = "dm:"

// Signature is a detached signature with its document.
type Signature struct {
	KeyID    string `json:"key_id,omitempty"` // see [KeyID]; may be empty
	Bytes    []byte `json:"bytes,omitempty"`  // Ed25519; empty if unsigned
	Text     string `json:"text,omitempty"`   // as received on the wire
	Document string `json:"document,omitempty"`
	Key      []byte `json:"key,omitempty"` // raw public key that verified it
}

// Evidence is the foreign original behind a [Vouched] event.
type Evidence struct {
	URL    string   `json:"url"`
	Digest [32]byte `json:"digest"`
	Bytes  []byte   `json:"-"`
	Source [32]byte `json:"source"` // SHA-256 of the foreign message without additions
}

// Actor returns the author of the step: the party identified by the home, else the DID represented by a
// vouched step, else the signer.
func (e Event) Actor() DID {
	if e.Arrival.ActingFor != "" {
		return e.Arrival.ActingFor
	}
	if e.Provenance == Vouched && e.For != "" {
		return e.For
	}
	return e.From
}

// Offeree returns the recipient of an offer as resolved by the home, else as named by the signer, or ""
// for an open offer.
func (e Event) Offeree() DID { return cmp.Or(e.Arrival.Recipient, e.To) }

// Time returns the time used for deadlines: that of a signed ID, else the time of receipt.
func (e Event) Time() time.Time {
	if e.Stamped {
		return e.ID.Time()
	}
	return e.Arrival.Received
}

// WireID returns the message ID of the step on all networks.
func (e Event) WireID() string {
	if e.Arrival.MessageID != "" {
		return e.Arrival.MessageID
	}
	return e.ID.String()
}

// Digest identifies the content of a step, to detect duplicates. It covers the signed document, or the
// foreign message and verb of a vouched step.
func (e Event) Digest() [32]byte {
	if e.Erased != nil {
		return e.Erased.Digest
	}
	if e.Evidence != nil {
		return sha256.Sum256(append(slices.Clone(e.Evidence.Source[:]), e.Verb...))
	}
	return sha256.Sum256([]byte(e.Signature.Document))
}

// Minted reports whether the digest omits the ID, so that the step may arrive under another ID.
func (e Event) Minted() bool { return !e.Stamped || e.Evidence != nil || e.Erased != nil }

// Verdict is the result of checking a signature. An outage makes it Unverifiable, never Invalid.
type Verdict int

// The verdicts, each with the required action.
const (
	Unverifiable Verdict = iota // no key is available now: check again later
	Valid                       // the signature matches: continue with the lifecycle
	Invalid                     // the key is known, but does not match: refuse
)

// String returns the spelling used in metrics and logs.
func (v Verdict) String() string {
	switch v {
	case Valid:
		return "valid"
	case Invalid:
		return "invalid"
	case Unverifiable:
	}
	return "unverifiable"
}

// The tags that mark a step as vouched, without the prefix of its dialect.
func vouchingTags() []string { return []string{"-for", "-src", "-src-h"} }

// CheckVouching refuses a step with a vouching tag unless a home wrote or forwarded it. A person signs
// only for itself, but readers would treat the address in such a tag as evidence.
//
// spec: handofftag "Tags", handoff-src, -src-h, -for
func CheckVouching(ev Event, prefix string) error {
	if ev.Provenance == Vouched || ev.Arrival.Home != "" {
		return nil
	}
	for _, tag := range vouchingTags() {
		name := string(ev.Dialect) + tag
		if _, there := ev.Fields[name]; there {
			return Refuse(ev, InvalidTag, prefix+name+": only a home can write it")
		}
	}
	return nil
}
