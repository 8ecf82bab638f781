package federation

import (
	"errors"
	"time"
)

// Errors of the session store.
var (
	// ErrTokenUsed is returned by AdvanceSession for a used refresh token.
	ErrTokenUsed = errors.New("federation: refresh token used before")
	// ErrSessionEnded is returned for a session whose key has ended.
	ErrSessionEnded = errors.New("federation: the key of the session has ended")
)

// Began is the method that began a session.
type Began string

// The methods.
const (
	BeganChallenge Began = "challenge" // a signed challenge without the gateway's name
	BeganBound     Began = "bound"     // a signed document with the gateway's name
	BeganDID       Began = "did"       // a login with a DID
	BeganHeader    Began = "header"    // a signed request without the gateway's name
	BeganKeyless   Began = "keyless"   // no signature
	BeganCode      Began = "code"      // an OAuth authorization code
	BeganDevice    Began = "device"    // the user code of a device
	BeganPairing   Began = "pairing"
	BeganPage      Began = "page"    // a login in a browser
	BeganRefresh   Began = "refresh" // a refresh token issued before sessions recorded their key
)

// Session is one login of a participant. All its tokens become invalid when it ends.
type Session struct {
	ID          string
	Participant string // a name on a link, or a DID
	Generation  uint64 // generation of the valid refresh token; 0 without one
	Expires     time.Time
	Ends        time.Time // latest end, set by the end of its key, or zero
	Began       Began
	Key         string // [KeyID] of the key that began it; "" for none or an unknown one
	// Bound means that the participant proved that key to this gateway by name.
	Bound   bool
	Created time.Time
	Used    time.Time // last issue of a token
	Address string
	// Client identifies the OAuth client to which the refresh tokens are bound, or "".
	Client     string
	ClientName string
}

// MaxSessions is the maximum number of sessions per participant. Clients that log in for each
// request would otherwise fill the record.
const MaxSessions = 256

// Unbound returns the ID of an unbound session, otherwise "".
func (s Session) Unbound() string {
	if s.Bound {
		return ""
	}
	return s.ID
}

// Live reports whether the tokens of a session are valid at the given time.
func (s Session) Live(at time.Time) bool {
	return at.Before(s.Expires) && (s.Ends.IsZero() || at.Before(s.Ends))
}

// Declaration is a DID's description of itself at a gateway.
type Declaration struct {
	DID         DID
	Name        string // unique at the gateway, or ""
	Description string
	Caps        []string
	At          time.Time
}

// NameKept is the time for which an unused name of a DID is reserved. A DID bound by an
// operator keeps its name.
const NameKept = 30 * 24 * time.Hour

// Answer is the response to a request with an idempotency key.
type Answer struct {
	DID    DID
	Key    string   // chosen by the caller, at most 255 bytes
	Digest [32]byte // SHA-256 of the request
	// Event is the ID of the step for the request and all its repeats.
	Event  EventID
	Status int // HTTP status; 0 until the request is answered
	Body   []byte
	At     time.Time
}
