package federation

import (
	"errors"
	"time"
)

// Errors of the session store.
var (
	// ErrTokenUsed is returned for a used refresh token.
	ErrTokenUsed = errors.New("federation: refresh token used before")
	// ErrSessionEnded is returned for a session whose key has ended.
	ErrSessionEnded = errors.New("federation: the key of the session has ended")
)

// Began is the method of login.
type Began string

// The methods.
const (
	BeganChallenge Began = "challenge" // a signed challenge without the gateway's name
	BeganBound     Began = "bound"     // a signed document with the gateway's name
	BeganDID       Began = "did"
	BeganHeader    Began = "header" // a signed request without the gateway's name
	BeganKeyless   Began = "keyless"
	BeganCode      Began = "code"   // an OAuth authorization code
	BeganDevice    Began = "device" // the user code of a device
	BeganPairing   Began = "pairing"
	BeganPage      Began = "page"
	BeganRefresh   Began = "refresh" // refresh token from before sessions recorded their key
)

// Session is one login of a participant. Its end invalidates all its tokens.
type Session struct {
	ID          string
	Participant string // name on a link, or DID
	Generation  uint64 // of the valid refresh token, or 0
	Expires     time.Time
	Ends        time.Time // latest possible end because of its key, or zero
	Began       Began
	Key         string // [KeyID] of the key that began it, or "" if unknown
	// Bound means that the proof of the key named this gateway.
	Bound   bool
	Created time.Time
	Used    time.Time // last issue of a token
	Address string
	// Client is the OAuth client bound to the refresh tokens, or "".
	Client     string
	ClientName string
}

// MaxSessions bounds the sessions of one participant, because some clients log in for each request.
const MaxSessions = 256

// Unbound returns the ID of an unbound session, otherwise "".
func (s Session) Unbound() string {
	if s.Bound {
		return ""
	}
	return s.ID
}

// Live reports whether the session's tokens are valid at the given time.
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

// NameKept is how long an unused name of a DID is reserved. A DID bound by an operator keeps its name.
const NameKept = 30 * 24 * time.Hour

// Answer is a response to a request with an idempotency key.
type Answer struct {
	DID    DID
	Key    string   // chosen by the caller; at most 255 bytes
	Digest [32]byte // of the request
	// Event is the step of the request and its repeats.
	Event  EventID
	Status int // HTTP status; 0 before the answer
	Body   []byte
	At     time.Time
}
