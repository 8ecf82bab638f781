package federation

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrStale is returned by the record if another step was filed first. The caller must read the view
// and judge again.
var ErrStale = errors.New("federation: the log moved on")

// ErrNotFound is returned by the record for an unknown name.
var ErrNotFound = errors.New("federation: not found")

// ErrTaken is returned by the record for a name already owned or bound to another DID.
var ErrTaken = errors.New("federation: name taken")

// ErrUnknownCursor is returned for a cursor that the inbox did not issue.
var ErrUnknownCursor = errors.New("federation: unknown cursor")

// Version counts the steps of one handoff. Zero is before the first step.
type Version uint64

// Cursor is a position in one inbox, opaque to networks. The zero Cursor is the start.
type Cursor string

// View is the state of one handoff, as rebuilt from its log. The zero View has no log.
type View struct {
	ID       HandoffID `json:"id"`
	Kind     Kind      `json:"kind"`
	Dialect  Dialect   `json:"dialect"` // of the offer, for the whole handoff
	Version  Version   `json:"version"`
	State    State     `json:"state"`
	Home     HomeID    `json:"home"`
	Remote   bool      `json:"remote,omitempty"`     // Home is another gateway, which also ends unanswered offers
	Numbered bool      `json:"numbered,omitempty"`   // Home rules on all steps, not only state changes
	Venue    string    `json:"venue"`                // on a chat network
	Link     string    `json:"link,omitempty"`       // the only link of a private venue
	Signed   string    `json:"signed_for,omitempty"` // the venue signed in the offer, if different
	Partial  []string  `json:"partial,omitempty"`    // links whose network lacks a step that was a command
	Offerer  DID       `json:"offerer"`
	Offeree  DID       `json:"offeree,omitempty"`  // empty if open
	Named    DID       `json:"named,omitempty"`    // DID of Offeree's kept key, if the offer names it
	Assignee DID       `json:"assignee,omitempty"` // empty before accept or claim

	Title    string    `json:"title"`
	Caps     []string  `json:"caps,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"` // zero for none
	Priority string    `json:"priority,omitempty"`

	BidDeadline time.Time `json:"bid_deadline,omitzero"` // zero for none
	Replaces    HandoffID `json:"replaces,omitzero"`     // the replaced handoff; may be unknown here

	Opened time.Time `json:"opened"`
	Moved  time.Time `json:"moved"`

	Erased time.Time `json:"erased,omitzero"` // erasure of its content; otherwise zero

	Answered Version   `json:"answered,omitempty"` // step that left the initial state; 0 before
	Over     bool      `json:"over,omitempty"`     // no step can follow
	Clock    Clock     `json:"clock,omitempty"`    // timeout that will end the handoff, or ""
	Since    time.Time `json:"since,omitzero"`     // start of the clock; zero without Clock
}

// Clock names the timeout after which the home ends a handoff. The lifecycle of a kind assigns
// clocks to states, and may have more than these.
type Clock string

// The clocks of every home.
const (
	DeadlineClock   Clock = "deadline"   // from the deadline of an unanswered offer
	UnansweredClock Clock = "unanswered" // from the last step of an offer without deadline
	AbandonedClock  Clock = "abandoned"  // from the last step of assigned work
)

// Exists reports whether the handoff has a log.
func (v View) Exists() bool { return v.Version > 0 }

// Others returns the offerer, offeree and assignee except one DID, each once.
func (v View) Others(actor DID) []DID {
	var others []DID
	for _, did := range []DID{v.Offerer, v.Offeree, v.Assignee} {
		if did != "" && did != actor && !slices.Contains(others, did) {
			others = append(others, did)
		}
	}
	return others
}

// MissingCaps returns the required capabilities that a DID has not declared; never nil.
func (v View) MissingCaps(declared []string) []string {
	missing := []string{}
	for _, name := range v.Caps {
		if !slices.Contains(declared, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// Addressee returns the DID named by the offer, or "" for an open offer.
func (v View) Addressee() DID { return cmp.Or(v.Named, v.Offeree) }

// Filing is one step with all changes of its filing, written in one transaction. It has the
// [Binding] of the signer if the arrival names one.
type Filing struct {
	Fanout

	Event   Event
	After   Version // the step was judged against it
	View    View
	Inboxes []DID
	Filed   time.Time
	// Receipt is the home's confirmation, delivered to the same links, or nil. It enters no log or
	// inbox.
	Receipt *Event
	// Newcomer is a DID that is new to the record with this step, or "".
	Newcomer DID
	// Ruling is the ruling of another home that numbers the steps of the handoff, or nil. It ends
	// the wait of a pending step.
	Ruling *Ruling
}

// Entry is one filed step or text, as read from a log, an inbox or an outbox. Logs have only steps.
type Entry struct {
	Event   Event     `json:"event"`   // zero for text
	Text    *Text     `json:"-"`       // nil for a step
	Version Version   `json:"version"` // position in the log: 1 for the offer, 0 for a receipt
	State   State     `json:"state"`   // after it
	Filed   time.Time `json:"filed"`
	Cursor  Cursor    `json:"-"` // set when read from an inbox
	Number  uint64    `json:"-"` // in that inbox: from 1, without gaps, in order of arrival
	Waits   bool      `json:"-"` // not read there yet
	Now     State     `json:"-"` // current state, set when read from an inbox; "" for text
}

// Row returns the step, or the [Text.Row] of text.
func (e Entry) Row() Event { return rowOf(e.Event, e.Text) }

func rowOf(step Event, text *Text) Event {
	if text != nil {
		return text.Row()
	}
	return step
}

func splitRow(row Event) (step Event, text *Text) {
	if row.Verb == TextVerb {
		return Event{}, TextOf(row)
	}
	return row, nil
}

// MarshalJSON implements [json.Marshaler]: the member "event" has the Row.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	e.Event = e.Row()
	return json.Marshal(plain(e))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Entry) UnmarshalJSON(text []byte) error {
	type plain Entry
	err := DecodeJSON(text, (*plain)(e))
	e.Event, e.Text = splitRow(e.Event)
	return err
}

// Binding records the DID of a name on a network.
type Binding struct {
	DID     DID
	Network string // as in [Arrival]
	Link    string
	Name    string    // the newest
	First   string    // the first known name, the source of permanent aliases
	Key     []byte    // raw public key that verified last
	Seen    time.Time // newest step, to the minute
}

// Judgement is the home's conclusion about one submitted step, also returned with a refusal.
type Judgement struct {
	Verdict   Verdict // on the signature
	Entry     Entry   // as filed; for an unfiled step, only the event with its ID
	View      View    // after it; unchanged if the step was refused
	Fanout    Fanout
	Duplicate bool // Entry is the existing one
	Conflicts int  // number of times it was judged again because another step was filed first
	// Newcomer is the DID of the step if it is new to the record, or "".
	Newcomer DID
	// Awaits is true if the step waits on disk for the ruling of another home. Entry has the step;
	// View does not include it.
	Awaits bool
}

// Fanout lists the destinations of a step, besides the inboxes of its parties.
type Fanout struct {
	Links []string
	// Once names the Links that show a step at most once. Filing counts as their first attempt,
	// which saves a write.
	Once []string
	// Effects are written with the step to the tables of their networks.
	Effects []Effect
	// Topics are woken after the filing, because the Effects change them.
	Topics []string
	// Kept lists the keys that the gateway keeps for the parties. Other networks may show the DIDs
	// of these keys, so the record stores the owners.
	Kept []KeptKey
}

// KeptKey is a key that the gateway keeps for a DID.
type KeptKey struct {
	ID    string // see [KeyID]
	Owner DID
}

// Effect is a write to one network's own tables within the transaction of a filed step, opaque to
// the record. A [*RefusalError] of that write prevents the filing.
type Effect any

// SnapshotQuery selects the data that a home reads from the record to judge a step.
type SnapshotQuery struct {
	Step    Event
	OpenOf  DID     // count the open handoffs offered by this DID, unless ""
	Inboxes bool    // read the use of inboxes: of Step.To for an offer, otherwise of the parties
	Version Version // in another home's ruling; 0 without one
}

// Snapshot is a consistent state of one step and its handoff in the record.
type Snapshot struct {
	View View // zero without a log
	// Filed is the same step (see [Event.Digest]) if it is already filed, or nil.
	Filed *Entry
	// Used is the reason why the step can never be filed, or nil: its signer used the ID for other
	// bytes ([EventIDInUse]), or the step was pruned ([TerminalHandoff]).
	Used      *RefusalError
	Named     *Entry    // the step of the same handoff in Step.Accepts, or nil
	Replaced  View      // handoff named by Step.Replaces; zero if it has no log
	Reference HandoffID // handoff of the step that Step answers or confirms; zero if unknown
	Pending   []Pending // steps waiting for the ruling of the home, oldest first
	Open      int       // see [SnapshotQuery].OpenOf
	// Inboxes has the use of each non-empty inbox, in total and by the signer.
	Inboxes map[DID]InboxUse
	Head    [32]byte // the [Link] after the newest step of View; zero without a log
	Chain   [32]byte // the [Link] after the step at the version of the query, or zero
	// Forked is true if the handoff provably has two histories. It is set only for a query with a
	// Version.
	Forked bool
}

// Judged reports whether the step is already filed or can never be filed.
func (s Snapshot) Judged() bool { return s.Filed != nil || s.Used != nil }

// Answers returns the event confirmed by a step, or the event or message that it answers, or "".
func (e Event) Answers() string {
	if e.Verb == Confirm && !e.Subject.IsZero() {
		return e.Subject.String()
	}
	return e.ReplyTo
}

// ErrDeferralFull is returned at the limit on deferred steps, of one origin or in total.
var ErrDeferralFull = errors.New("federation: too many steps wait to be judged")

// Deferred is a step that cannot be judged yet, because its key was not found, or because it
// depends on an earlier deferred step. It is in no log and does not change the handoff.
type Deferred struct {
	Row    int64 // order of arrival
	Event  Event
	Origin string // link of its arrival; never empty
	Since  time.Time
	Tried  int // later attempts to judge it
	Next   time.Time
	Reason string // why the last attempt failed, for operators
}

// DeferralLimits bounds the number of deferred steps. Zero means no limit.
type DeferralLimits struct {
	PerUser   int // one name on one link ([Arrival].Name); steps without a name are not counted
	PerOrigin int
	Total     int
}

// JournalWrite appends to a journal: a named list of entries kept by a link, such as the history of
// a session. Entries are opaque to the record.
type JournalWrite struct {
	Name    string // unique in the record; begins with the label of the network and a slash
	Length  uint64 // before the write; any other length is refused with [ErrStale]
	Entries [][]byte
	Due     time.Time // next check by its owner; zero for never
}

// MaxJournalPage bounds the entries and names returned by one read of journals.
const MaxJournalPage = 1024

// Filter selects handoffs. A zero member matches all.
type Filter struct {
	DIDs       []DID // one is its offerer, offeree or assignee
	State      State
	Kind       Kind
	Venue      string    // on a chat network
	Capability string    // required by its offer
	Since      time.Time // changed then or later
	Title      string    // words of its title, in any order and case
}

// Admits reports whether a handoff matches.
func (f Filter) Admits(v View) bool {
	party := func(did DID) bool { return did == v.Offerer || did == v.Offeree || did == v.Assignee }
	return (len(f.DIDs) == 0 || slices.ContainsFunc(f.DIDs, party)) &&
		(f.State == "" || f.State == v.State) &&
		(f.Kind == "" || f.Kind == v.Kind) &&
		(f.Venue == "" || f.Venue == v.Venue) &&
		(f.Capability == "" || slices.Contains(v.Caps, f.Capability)) &&
		!v.Moved.Before(f.Since) && f.titled(v.Title)
}

func (f Filter) titled(title string) bool {
	if f.Title == "" {
		return true
	}
	title = strings.ToLower(title)
	for word := range strings.FieldsSeq(strings.ToLower(f.Title)) {
		if !strings.Contains(title, word) {
			return false
		}
	}
	return true
}

// MinSuffix is the minimum length of an ID suffix that identifies a handoff.
const MinSuffix = 6

// MaxFound bounds the handoffs reported for one suffix.
const MaxFound = 16
