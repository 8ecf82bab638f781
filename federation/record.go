package federation

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrStale is returned by the record if another step was filed first. The caller must judge again.
var ErrStale = errors.New("federation: the log moved on")

// ErrNotFound is returned by the record for an unknown name.
var ErrNotFound = errors.New("federation: not found")

// ErrTaken is returned by the record if the name has an owner or is bound to another DID.
var ErrTaken = errors.New("federation: name taken")

// ErrUnknownCursor is returned for a cursor not issued by the inbox.
var ErrUnknownCursor = errors.New("federation: unknown cursor")

// Version counts the steps of one handoff, from 1.
type Version uint64

// Cursor is an opaque position in one inbox. The zero Cursor is the start.
type Cursor string

// View is the state of one handoff. The zero View has no log.
type View struct {
	ID       HandoffID `json:"id"`
	Kind     Kind      `json:"kind"`
	Dialect  Dialect   `json:"dialect"`
	Version  Version   `json:"version"`
	State    State     `json:"state"`
	Home     HomeID    `json:"home"`
	Remote   bool      `json:"remote,omitempty"`   // Home is another gateway, which also ends unanswered offers
	Numbered bool      `json:"numbered,omitempty"` // Home rules on all steps, not only on state changes
	Venue    string    `json:"venue"`
	Link     string    `json:"link,omitempty"`       // of a private venue
	Signed   string    `json:"signed_for,omitempty"` // venue signed in the offer, if different
	Partial  []string  `json:"partial,omitempty"`    // links whose network lacks a step sent by command
	Offerer  DID       `json:"offerer"`
	Offeree  DID       `json:"offeree,omitempty"`
	Named    DID       `json:"named,omitempty"` // DID of Offeree's kept key, if named by the offer
	Assignee DID       `json:"assignee,omitempty"`

	Title    string    `json:"title"`
	Caps     []string  `json:"caps,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	Priority string    `json:"priority,omitempty"`

	BidDeadline time.Time `json:"bid_deadline,omitzero"`
	Replaces    HandoffID `json:"replaces,omitzero"` // may be unknown here

	Opened time.Time `json:"opened"`
	Moved  time.Time `json:"moved"`

	Erased time.Time `json:"erased,omitzero"`

	Answered Version   `json:"answered,omitempty"` // first step after the initial state, or 0
	Over     bool      `json:"over,omitempty"`     // no step can follow
	Clock    Clock     `json:"clock,omitempty"`    // timeout that ends the handoff, or ""
	Since    time.Time `json:"since,omitzero"`     // start of Clock, or zero
}

// Clock names a timeout after which the home ends a handoff. The lifecycle of a kind may define more.
type Clock string

// The clocks of every home.
const (
	DeadlineClock   Clock = "deadline"   // from the deadline of an unanswered offer
	UnansweredClock Clock = "unanswered" // from the last step of an offer without a deadline
	AbandonedClock  Clock = "abandoned"  // from the last step of assigned work
)

// Exists reports whether the handoff has a log.
func (v View) Exists() bool { return v.Version > 0 }

// Others returns the distinct parties except one.
func (v View) Others(actor DID) []DID {
	var others []DID
	for _, did := range []DID{v.Offerer, v.Offeree, v.Assignee} {
		if did != "" && did != actor && !slices.Contains(others, did) {
			others = append(others, did)
		}
	}
	return others
}

// MissingCaps returns the required capabilities that are not declared. The result is never nil.
func (v View) MissingCaps(declared []string) []string {
	missing := []string{}
	for _, name := range v.Caps {
		if !slices.Contains(declared, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// Addressee returns the DID named by the offer, or "" if it is open.
func (v View) Addressee() DID { return cmp.Or(v.Named, v.Offeree) }

// Filing is one step with all changes of its filing, written in one transaction. If the arrival has a
// name, a [Binding] is written too.
type Filing struct {
	Fanout

	Event   Event
	After   Version // version at which it was judged
	View    View
	Inboxes []DID
	Filed   time.Time
	// Receipt is the home's confirmation for the same links, or nil. It enters no log or inbox.
	Receipt *Event
	// Newcomer is a DID new to the record, or "".
	Newcomer DID
	// Ruling is another home's ruling on the step, or nil. It ends the wait of a pending step.
	Ruling *Ruling
}

// Entry is a filed step or text in a log, inbox or outbox. Logs contain only steps.
type Entry struct {
	Event   Event     `json:"event"`
	Text    *Text     `json:"-"`       // nil for a step
	Version Version   `json:"version"` // in the log: 1 for the offer, 0 for a receipt
	State   State     `json:"state"`
	Filed   time.Time `json:"filed"`
	Cursor  Cursor    `json:"-"`
	Number  uint64    `json:"-"` // in the inbox: from 1, without gaps, in order of arrival
	Waits   bool      `json:"-"` // unread in the inbox
	Now     State     `json:"-"` // current; only from an inbox, "" for text
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

// MarshalJSON writes [Entry.Row] as the member "event".
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

// Binding is the DID of a name on a network.
type Binding struct {
	DID     DID
	Network string // see [Arrival]
	Link    string
	Name    string
	First   string    // first known name, for permanent aliases
	Key     []byte    // raw public key of the last verified step
	Seen    time.Time // newest step, to the minute
}

// Judgement is the home's decision on a submitted step, also returned with a refusal.
type Judgement struct {
	Verdict   Verdict
	Entry     Entry // if not filed, only the event with its ID
	View      View  // after the step; unchanged by a refusal
	Fanout    Fanout
	Duplicate bool // filed before
	Conflicts int  // repetitions because another step was filed first
	// Newcomer is the step's DID if it is new to the record, or "".
	Newcomer DID
	// Awaits is true if the step waits on disk for another home's ruling. View does not include it.
	Awaits bool
}

// Fanout lists the destinations of a step besides its parties' inboxes.
type Fanout struct {
	Links []string
	// Once names the Links that show a step at most once. Filing counts as their first attempt.
	Once []string
	// Effects are written in the transaction of the step.
	Effects []Effect
	// Topics are woken after the filing.
	Topics []string
	// Kept lists keys kept for the parties. The record stores their owners, because other networks may
	// show the DIDs of these keys.
	Kept []KeptKey
}

// KeptKey is a key kept for a DID.
type KeptKey struct {
	ID    string // see [KeyID]
	Owner DID
}

// Effect is a write to a network's own tables in the transaction of a filed step, opaque to the record.
// If it fails with a [*RefusalError], the step is not filed.
type Effect any

// SnapshotQuery selects the data for judging a step.
type SnapshotQuery struct {
	Step    Event
	OpenOf  DID     // whose open offers are counted, or ""
	Inboxes bool    // read the use of the inboxes: of Step.To for an offer, otherwise of the parties
	Version Version // of another home's ruling, or 0
}

// Snapshot is a consistent view of one step and its handoff in the record.
type Snapshot struct {
	View View // zero without a log
	// Filed is the same step as filed (see [Event.Digest]), or nil.
	Filed *Entry
	// Used is the reason why the step can never be filed, or nil: its signer reused the ID
	// ([EventIDInUse]), or the step was pruned ([TerminalHandoff]).
	Used      *RefusalError
	Named     *Entry    // step in Step.Accepts, if in this handoff
	Replaced  View      // handoff in Step.Replaces
	Reference HandoffID // handoff of the step answered or confirmed by Step
	Pending   []Pending // oldest first
	Open      int       // see [SnapshotQuery].OpenOf
	Inboxes   map[DID]InboxUse
	Head      [32]byte // [Link] after the newest step, or zero
	Chain     [32]byte // [Link] at the version of the query, or zero
	// Forked is true if the handoff provably has two histories. It requires a Version in the query.
	Forked bool
}

// Judged reports whether the step is already filed or can never be filed.
func (s Snapshot) Judged() bool { return s.Filed != nil || s.Used != nil }

// Answers returns the ID of the confirmed event, or of the answered event or message, or "".
func (e Event) Answers() string {
	if e.Verb == Confirm && !e.Subject.IsZero() {
		return e.Subject.String()
	}
	return e.ReplyTo
}

// ErrDeferralFull is returned at the limit of deferred steps, of one origin or in total.
var ErrDeferralFull = errors.New("federation: too many steps wait to be judged")

// Deferred is a step that cannot be judged yet, because its key was not found, or an earlier step is
// deferred. It is in no log and does not change the handoff.
type Deferred struct {
	Row    int64
	Event  Event
	Origin string // link of its arrival; never ""
	Since  time.Time
	Tried  int // failed retries
	Next   time.Time
	Reason string // of the last failure
}

// DeferralLimits bounds deferred steps. Zero means no limit.
type DeferralLimits struct {
	PerUser   int // one name on one link; steps without a name do not count
	PerOrigin int
	Total     int
}

// JournalWrite appends to a journal: a named list of entries of a link, such as the history of a
// session. The entries are opaque to the record.
type JournalWrite struct {
	Name    string // unique; starts with the network label and a slash
	Length  uint64 // before the write; otherwise [ErrStale]
	Entries [][]byte
	Due     time.Time // next check by the owner, or zero for never
}

// MaxJournalPage bounds the entries or names returned by one read.
const MaxJournalPage = 1024

// Filter selects handoffs. A zero field matches all.
type Filter struct {
	DIDs       []DID // one of these is a party
	State      State
	Kind       Kind
	Venue      string
	Capability string    // required by the offer
	Since      time.Time // changed at or after
	Title      string    // words in any order and case
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

// MinSuffix is the minimum length of an ID suffix.
const MinSuffix = 6

// MaxFound bounds the handoffs found for one suffix.
const MaxFound = 16
