package federation

import (
	"errors"
	"time"
)

// The errors of [federationtest.Sessions].
var (
	// ErrTokenUsed is returned by AdvanceSession for a refresh token that was used before.
	ErrTokenUsed = errors.New("federation: refresh token used before")
	// ErrSessionEnded is returned for a session that cannot begin: its key has ended.
	ErrSessionEnded = errors.New("federation: the key of the session has ended")
)

// Began says how a session began.
type Began string

// The ways in which a session begins.
const (
	BeganChallenge Began = "challenge" // with a signed challenge, which names no gateway
	BeganBound     Began = "bound"     // with a signed document that names this gateway
	BeganDID       Began = "did"       // with a login with a DID
	BeganHeader    Began = "header"    // with a signed request, which names no gateway
	BeganKeyless   Began = "keyless"   // without a signature
	BeganRefresh   Began = "refresh"   // before sessions had a key on record
)

// Session is what one login of a participant started. Every token of it is invalid once it has
// ended.
type Session struct {
	ID          string
	Participant string // a name on a link, or a DID
	Generation  uint64 // of the refresh token that is good now; 0 for a session without one
	Expires     time.Time
	Ends        time.Time // when its key ends, at the latest; zero for no end
	Began       Began
	Key         string // [KeyID] of the key that it began with; "" for none, and for an unknown one
	// Bound says that the participant made a proof that names this gateway with that key.
	Bound   bool
	Created time.Time
	Used    time.Time // when it got its last token
	Address string    // from which it began
}

// MaxSessions is how many sessions one participant has at a time. Clients that log in for each
// request fill the record otherwise.
const MaxSessions = 256

// Unbound returns the ID of a session that is not bound, else "".
func (s Session) Unbound() string {
	if s.Bound {
		return ""
	}
	return s.ID
}

// Live reports whether the tokens of a session are good at a time.
func (s Session) Live(at time.Time) bool {
	return at.Before(s.Expires) && (s.Ends.IsZero() || at.Before(s.Ends))
}
