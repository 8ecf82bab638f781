package contract

import (
	"encoding/json"
	"time"

	"baton/bridge"
	"baton/bridge/participant"
	"baton/federation"
)

// Moment is a time, in RFC 3339 with milliseconds, in UTC; empty for none.
type Moment time.Time

// momentFormat is that of every time in an answer.
const momentFormat = "2006-01-02T15:04:05.000Z"

// String returns the moment as it is written; "" for the zero one.
func (m Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return time.Time(m).UTC().Format(momentFormat)
}

// IsZero reports whether there is no time.
func (m Moment) IsZero() bool { return time.Time(m).IsZero() }

// MarshalJSON implements [json.Marshaler].
func (m Moment) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Moment) UnmarshalJSON(text []byte) error {
	var t time.Time
	if string(text) != `""` {
		if err := federation.DecodeJSON(text, &t); err != nil {
			return err
		}
	}
	*m = Moment(t)
	return nil
}

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"` // The cursor of the next page; empty after the last item.
}

// Act is what the body of every change may have, and all that most of them have.
type Act struct {
	Reason string `json:"reason,omitempty"`
	// DryRun asks what would be answered, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// Acted is how many things a change was made to, or with DryRun would be.
type Acted struct {
	Changed int  `json:"changed"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// Empty is an answer without members.
type Empty struct{}

// Called is the answer of a participant.
type Called = participant.Called

// Problem is why a request failed.
type Problem = bridge.ProblemError //nolint:errname // the contract has this name

// Prefix is the path of all routes.
const Prefix = "/operator/v1/"

// MaxLimit is the largest number of items of one page.
const MaxLimit = 500
