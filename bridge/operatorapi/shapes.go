package operatorapi

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"baton/federation"
)

// Moment is a time as operators read it: RFC 3339 in UTC with milliseconds.
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
		if err := json.Unmarshal(text, &t); err != nil {
			return err
		}
	}
	*m = Moment(t)
	return nil
}

// Handoff is a handoff as it stands. In a list it has no steps.
type Handoff struct {
	ID       federation.HandoffID `json:"id"`
	Kind     federation.Kind      `json:"kind"`
	State    federation.State     `json:"state"`
	Version  federation.Version   `json:"version"`
	Home     federation.HomeID    `json:"home"`
	Venue    string               `json:"venue"`
	Dialect  federation.Dialect   `json:"dialect"`
	Offerer  federation.DID       `json:"offerer"`
	Offeree  federation.DID       `json:"offeree,omitempty"`  // not there of one that is open to anyone
	Assignee federation.DID       `json:"assignee,omitempty"` // not there before somebody took it
	Title    string               `json:"title"`
	Deadline Moment               `json:"deadline,omitzero"`
	Caps     []string             `json:"caps"`
	Opened   Moment               `json:"opened"`
	Moved    Moment               `json:"moved"`
	// Orphaned says that its home, another one, was not heard for a day.
	Orphaned bool `json:"orphaned,omitempty"`

	Steps []Step `json:"steps,omitempty"`
	// NextCursor is where the steps go on; "" after the last.
	NextCursor string `json:"next_cursor,omitempty"`
}

// Step is one filed step.
type Step struct {
	EventID    federation.EventID    `json:"event_id"`
	Verb       federation.Verb       `json:"verb"`
	From       federation.DID        `json:"from"`          // the signer
	For        federation.DID        `json:"for,omitempty"` // whose step it is, where that is not the signer's
	Name       string                `json:"name"`          // what people call who took it
	Network    string                `json:"network"`       // that it came from
	Link       string                `json:"link"`
	Time       Moment                `json:"time"`  // the clock that deadlines use
	Filed      Moment                `json:"filed"` // here
	Provenance federation.Provenance `json:"provenance"`
	Verdict    string                `json:"verdict"`
	Scheme     federation.Dialect    `json:"scheme"` // in which it was signed
	KeyID      string                `json:"kid"`
	Note       string                `json:"note,omitempty"`
	Evidence   *Evidence             `json:"evidence,omitempty"`
	Delivered  []Delivery            `json:"delivered"`
}

// Evidence is where the original of a vouched step is.
type Evidence struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
}

// Delivery is what became of a step on its way to one link.
type Delivery struct {
	To    string                   `json:"to"`  // a channel, or who it is for
	Via   string                   `json:"via"` // the link, "webhook" or "inbox"
	State federation.DeliveryState `json:"state"`
	Code  string                   `json:"code,omitempty"` // of a refused one, or why it was given up
	Time  Moment                   `json:"time,omitzero"`  // not there while it waits
}

// Filed is the answer to a step that was filed, now or before, or that waits.
type Filed struct {
	ID        federation.HandoffID `json:"id"`
	EventID   federation.EventID   `json:"event_id"`
	Verb      federation.Verb      `json:"verb"`
	State     federation.State     `json:"state"`
	Duplicate bool                 `json:"duplicate"`
	Lost      []string             `json:"lost"` // what the step could not carry of the request
	// Waits says why the step is not filed yet: it is on disk, and judged again once a
	// key is there. Empty for a step that is filed.
	Waits string `json:"waits,omitempty"`
}

// Place is where an offer would be written, and in which dialect it is to be
// signed.
type Place struct {
	Venue   string             `json:"venue"`
	Dialect federation.Dialect `json:"dialect"`
}

// Arrived is one step in an inbox.
type Arrived struct {
	Cursor     federation.Cursor     `json:"cursor"` // after it
	HandoffID  federation.HandoffID  `json:"handoff_id"`
	EventID    federation.EventID    `json:"event_id"`
	Verb       federation.Verb       `json:"verb"`
	From       federation.DID        `json:"from"` // whose step it is
	Name       string                `json:"name"`
	State      federation.State      `json:"state"` // of the handoff after it
	Filed      Moment                `json:"filed"`
	Provenance federation.Provenance `json:"provenance"`
	Title      string                `json:"title,omitempty"`
	Note       string                `json:"note,omitempty"`
}

// Link is a link as it stands.
type Link struct {
	Name      string `json:"name"`
	Network   string `json:"network"`
	State     string `json:"state"`
	LastHeard Moment `json:"last_heard,omitzero"`
	Waiting   int    `json:"waiting"`         // steps that it is owed
	Oldest    Moment `json:"oldest,omitzero"` // when the oldest of them was filed
	NextDial  Moment `json:"next_dial,omitzero"`
	LastError string `json:"last_error"`

	*LinkDetail // of one link alone
}

// LinkDetail is what is told of a link that was asked for by its name.
type LinkDetail struct {
	Negotiated  map[string]string `json:"negotiated"`
	Channels    []string          `json:"channels"`
	Limits      LinkLimits        `json:"limits"`
	SkewSeconds float64           `json:"skew_seconds"` // by which our clock is ahead
	NotCarried  []string          `json:"not_carried"`
}

// LinkLimits is what a link lets in. Zero is no limit.
type LinkLimits struct {
	UserEventsPerMinute int `json:"user_events_per_minute"`
	LinkEventsPerSecond int `json:"link_events_per_second"`
}

// The origins of a binding.
const (
	FromConfiguration = "configuration"
	FromRecord        = "record"
)

// Binding is a name that stands for a DID.
type Binding struct {
	Network string         `json:"network"`
	Name    string         `json:"name"`
	DID     federation.DID `json:"did"`
	Vouch   bool           `json:"vouch"`
	Origin  string         `json:"origin"`
	Since   Moment         `json:"since,omitzero"` // of one in the record
}

// Ask is the body of a step: its members, or the document that was signed and its
// signature.
type Ask struct {
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`      // of an offer; "" for anyone
	Channel string `json:"channel,omitempty"` // of an offer; "" where the gateway is to choose
	Title   string `json:"title,omitempty"`
	Context string `json:"context,omitempty"` // JSON, or a reference to it
	// ContextHash is that of what Context refers to: "sha256:" and 64 hexadecimal digits.
	ContextHash string   `json:"context_hash,omitempty"`
	Caps        []string `json:"caps,omitempty"`
	Deadline    Moment   `json:"deadline,omitzero"`
	Note        string   `json:"note,omitempty"`

	Proof  *Proof `json:"proof,omitempty"`
	Reason string `json:"reason,omitempty"` // for the log
}

// Proof is a step as somebody signed it. Everything else but Channel and Reason is
// in the document.
type Proof struct {
	Document  string `json:"document"`
	Signature string `json:"signature"` // as on the wire
}

// Bind is the body of a binding.
type Bind struct {
	Act

	DID   string `json:"did"`
	Vouch bool   `json:"vouch"`
}

// Ack is the body of an acknowledgement.
type Ack struct {
	Cursor federation.Cursor `json:"cursor"`
	Device string            `json:"device,omitempty"`
	Reason string            `json:"reason,omitempty"`
}

func (o *Operator) shapeHandoff(v federation.View, now time.Time) Handoff {
	caps := v.Caps
	if caps == nil {
		caps = []string{}
	}
	return Handoff{
		ID: v.ID, Kind: v.Kind, State: v.State, Version: v.Version, Home: v.Home, Venue: v.Venue, Dialect: v.Dialect,
		Offerer: v.Offerer, Offeree: v.Offeree, Assignee: v.Assignee, Title: v.Title, Deadline: Moment(v.Deadline), Caps: caps,
		Opened: Moment(v.Opened), Moved: Moment(v.Moved), Orphaned: o.orphaned(v, now),
	}
}

func shapeStep(e federation.Entry, name string) Step {
	ev := e.Event
	s := Step{
		EventID: ev.ID, Verb: ev.Verb, From: ev.From, Name: name, Network: ev.Arrival.Network, Link: ev.Arrival.Link,
		Time: Moment(ev.Time()), Filed: Moment(e.Filed), Provenance: ev.Provenance,
		Verdict: federation.Valid.String(), // nothing else is filed
		Scheme:  ev.Dialect, KeyID: ev.Signature.KeyID, Note: ev.Note, Delivered: []Delivery{},
	}
	if actor := ev.Actor(); actor != ev.From {
		s.For = actor
	}
	if ev.Evidence != nil {
		s.Evidence = &Evidence{URL: ev.Evidence.URL, SHA256: hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	return s
}

func shapeBinding(b federation.BoundName, origin string) Binding {
	return Binding{Network: b.Network, Name: b.Name, DID: b.DID, Vouch: b.Vouch, Origin: origin, Since: Moment(b.Since)}
}
