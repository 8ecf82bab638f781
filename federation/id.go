package federation

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// EventID is the ULID of one step, created by its signer. Its first 48 bits are the signer's clock
// in unix milliseconds, the only clock for deadlines. Two events with the same ID and signer are
// one event if their bytes are equal, and otherwise a conflict. The zero value is not a valid id.
type EventID ulid.ULID

// HandoffID names a handoff. It is the [EventID] of the offer that opened it.
type HandoffID = EventID

// NewEventID returns a new ID for a time. It returns the errors of entropy.
func NewEventID(now time.Time, entropy io.Reader) (EventID, error) {
	id, err := ulid.New(ulid.Timestamp(now), entropy)
	if err != nil {
		return EventID{}, fmt.Errorf("mint event id: %w", err)
	}
	return EventID(id), nil
}

// ParseEventID accepts only the canonical form, so that two spellings of an ID cannot be two
// events.
func ParseEventID(s string) (EventID, error) {
	id, err := ulid.ParseStrict(s)
	if err != nil {
		return EventID{}, fmt.Errorf("parse event id %q: %w", s, err)
	}
	if id.String() != s {
		return EventID{}, fmt.Errorf("parse event id %q: %w", s, ErrNotCanonical)
	}
	return EventID(id), nil
}

// String returns the canonical form, 26 upper-case characters; "" for no id.
func (id EventID) String() string {
	if id.IsZero() {
		return ""
	}
	return ulid.ULID(id).String()
}

// Short returns the last six characters, which are enough to identify a handoff in a conversation.
// The first ones are a timestamp, and similar.
func (id EventID) Short() string {
	s := id.String()
	return s[max(0, len(s)-6):]
}

// Time returns the signer's clock, to the millisecond.
func (id EventID) Time() time.Time { return ulid.Time(ulid.ULID(id).Time()).UTC() }

// IsZero reports whether the id is the zero value.
func (id EventID) IsZero() bool { return id == EventID{} }

// MarshalText writes the canonical form.
func (id EventID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the canonical form, or the zero ID from an empty text.
func (id *EventID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = EventID{}
		return nil
	}
	parsed, err := ParseEventID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// HomeID names a home by its server name, as in "gw.example".
type HomeID string

// DID returns the identity that signs the home's own statements.
func (h HomeID) DID() DID { return DID("did:web:" + string(h)) }

// Valid reports whether a name is a valid home name: lower-case letters, digits, "-" and dots, at
// most 253 of them. So no two homes share a NATS subject.
func (h HomeID) Valid() bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}
	return h != "" && len(h) <= 253 && !strings.ContainsFunc(string(h), odd)
}
