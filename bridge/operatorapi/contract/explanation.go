package contract

import (
	"baton/bridge"
	"baton/federation"
)

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

// ExplainedDID describes the document of a DID as this gateway sees it.
type ExplainedDID struct {
	DID     federation.DID `json:"did"`
	Source  string         `json:"source,omitempty"`  // address of the document; empty if none was requested
	Fetched Moment         `json:"fetched,omitzero"`  // time of the fetch
	Mailbox string         `json:"mailbox,omitempty"` // address of the home that has its mailbox, according to the document
	Error   string         `json:"error,omitempty"`   // reason why there is no document
	Keys    []DocumentKey  `json:"keys"`              // signing keys
	Skipped []SkippedKey   `json:"skipped"`           // unusable keys
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

// Judgement is the What of a [Next] that is a step which waits for a key.
const Judgement = "judge"

// Routing is the What of a [Next] that is a delivery which waits for a route: no home is known to
// have the mailbox of its recipient, or that home is no peer now.
const Routing = "route"
