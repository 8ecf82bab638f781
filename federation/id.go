package federation

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// EventID is the ULID of one step, created by its signer. Its first 48 bits are the signer's clock in
// Unix milliseconds, which decides about deadlines. Different events with the same ID and signer
// conflict. The zero value is not a valid ID.
type EventID ulid.ULID

// HandoffID is the [EventID] of the offer that opened the handoff.
type HandoffID = EventID

// NewEventID returns a new ID for a time. It fails only if entropy fails.
func NewEventID(now time.Time, entropy io.Reader) (EventID, error) {
	id, err := ulid.New(ulid.Timestamp(now), entropy)
	if err != nil {
		return EventID{}, fmt.Errorf("mint event id: %w", err)
	}
	return EventID(id), nil
}

// ParseEventID accepts only the canonical spelling.
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

// String returns 26 upper-case characters, or "" for the zero ID.
func (id EventID) String() string {
	if id.IsZero() {
		return ""
	}
	return ulid.ULID(id).String()
}

// Short returns the last six characters. The first ones are a timestamp, and therefore similar among
// IDs.
func (id EventID) Short() string {
	s := id.String()
	return s[max(0, len(s)-6):]
}

// Time returns the signer's clock, with millisecond precision.
func (id EventID) Time() time.Time { return ulid.Time(ulid.ULID(id).Time()).UTC() }

// IsZero reports whether the ID is the zero value.
func (id EventID) IsZero() bool { return id == EventID{} }

// MarshalText implements [encoding.TextMarshaler].
func (id EventID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText accepts the canonical form, or an empty text for the zero ID.
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

// DID returns the DID that signs the home's own statements.
func (h HomeID) DID() DID { return DID("did:web:" + string(h)) }

// Valid reports whether a home name is valid: at most 253 lower-case letters, digits, "-" and dots. The
// limits keep the NATS subjects of homes distinct.
func (h HomeID) Valid() bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}
	return h != "" && len(h) <= 253 && !strings.ContainsFunc(string(h), odd)
}
