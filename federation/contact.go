package federation

import (
	"errors"
	"time"
)

// MaxContacts bounds the senders that one participant allows or blocks, and the strangers that
// write to it while it decides nothing about them.
const MaxContacts = 10_000

// ErrTooManyContacts is returned for the decision about one sender more than [MaxContacts].
var ErrTooManyContacts = errors.New("federation: too many contacts")

// ContactState says what a participant decided about a sender.
type ContactState string

// The states of a sender.
const (
	ContactUnknown    ContactState = ""           // it has not written yet
	ContactIntroduced ContactState = "introduced" // the recipient was told how to allow and to block it
	ContactAllowed    ContactState = "allowed"
	ContactBlocked    ContactState = "blocked" // its messages are refused, on every network
)

// Contact is what a participant decided about a sender of messages.
type Contact struct {
	Person, Sender DID
	Name           string // of a sender on its network; "" where the name of its DID is enough
	State          ContactState
	Since          time.Time
}
