package federation

import (
	"errors"
	"time"
)

// ErrTokenUsed is returned by [federationtest.Sessions.AdvanceSession] for a refresh token that was used before.
var ErrTokenUsed = errors.New("federation: refresh token used before")

// Session is one family of refresh tokens: each is spent by the next.
type Session struct {
	ID          string
	Participant string // a name on a link, or a DID
	Generation  uint64 // of the token that is good now
	Expires     time.Time
}
