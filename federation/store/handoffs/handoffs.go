// Package handoffs stores the logs of handoffs in the record: events, views, evidence and blobs,
// the lists of handoffs, the tombstones of pruned steps, and deferred and pending steps. The method
// Append of the record files a step and all its related rows.
package handoffs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/eventform"
)

// Logs are the logs of one record, safe for concurrent use.
type Logs struct {
	db       *engine.DB
	deferred engine.Cache[struct{}, bool]
}

// New returns the logs in a database.
func New(db *engine.DB) *Logs {
	s := &Logs{db: db}
	s.deferred.Attach(db)
	return s
}

// View returns the zero View for a handoff without a log here.
func (s *Logs) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	var text []byte
	err := s.db.Reads().Row(ctx, `SELECT view FROM handoff WHERE id = ?`, []any{id.String()}, &text)
	if errors.Is(err, federation.ErrNotFound) {
		return federation.View{}, nil
	}
	if err != nil {
		return federation.View{}, fmt.Errorf("read view of %s: %w", id, err)
	}
	return DecodeView(text)
}

// ScanView reads a row of one view.
func ScanView(row engine.Scanner) (federation.View, error) {
	var text []byte
	if err := row.Scan(&text); err != nil {
		return federation.View{}, err
	}
	return DecodeView(text)
}

// ListDue returns up to limit handoffs with a clock that has been running at least since a given
// time, longest first.
func (s *Logs) ListDue(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error) {
	due, err := engine.Rows(ctx, s.db.Reads(), ScanView, `SELECT view FROM handoff
		WHERE clock = ? AND clock <> '' AND since <= ? ORDER BY since, id`+engine.AtMost, clock, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("find overdue handoffs: %w", err)
	}
	return due, nil
}

// ScanHandoffID scans a row that holds only a handoff ID.
func ScanHandoffID(row engine.Scanner) (id federation.HandoffID, err error) {
	var text []byte
	err = row.Scan(&text)
	return id, errors.Join(err, id.UnmarshalText(text))
}

// DecodeEvent reads an event from JSON of the whole event.
func DecodeEvent(body []byte) (federation.Event, error) {
	var ev federation.Event
	if err := federation.DecodeJSON(body, &ev); err != nil {
		return federation.Event{}, fmt.Errorf("decode event: %w", err)
	}
	return ev, nil
}

// DecodeView reads a view.
func DecodeView(text []byte) (federation.View, error) {
	var view federation.View
	if err := federation.DecodeJSON(text, &view); err != nil {
		return federation.View{}, fmt.Errorf("decode view: %w", err)
	}
	return view, nil
}

// Prepared is an event in its stored form.
type Prepared struct {
	Digest   [32]byte // events with the same digest are one event
	Document [32]byte // SHA-256 of the signed document
	Columns  eventform.Columns
}

// Prepare converts an event to its stored form. It returns an error if the record cannot store the
// signed bytes exactly.
func Prepare(ev federation.Event) (Prepared, error) {
	if err := checkKept(ev); err != nil {
		return Prepared{}, err
	}
	columns, err := eventform.Encode(ev, ev.Arrival.MessageID, engine.Moment(engine.Stamp(ev.ShownAt())))
	return Prepared{
		Digest:   ev.Digest(),
		Document: sha256.Sum256([]byte(ev.Signature.Document)),
		Columns:  columns,
	}, err
}

func checkKept(ev federation.Event) error {
	switch {
	case ev.ID.IsZero() || ev.Handoff.IsZero():
		return errors.New("the event has no id")
	case !keepsText(ev):
		return errors.New("what was signed is not UTF-8, which JSON cannot keep")
	}
	return nil
}

func encodeWhole(ev federation.Event) ([]byte, error) {
	if err := checkKept(ev); err != nil {
		return nil, err
	}
	return json.Marshal(ev)
}

// JSON silently replaces invalid UTF-8.
func keepsText(ev federation.Event) bool {
	for name, value := range ev.Fields {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return utf8.ValidString(ev.Signature.Document) && utf8.ValidString(ev.Signature.Text)
}

// A page is read completely, so that no connection is held while the caller processes it.
const logPage = 128

// TextState is the state of an event returned by [federation.Text.Row].
const TextState = "said"

// EventColumns are the columns of an event e.
const EventColumns = `e.document, e.body, coalesce(e.message, ''), coalesce(e.said, 0)`

// EventScan scans the columns of one event.
type EventScan struct {
	Body []byte

	document []byte
	message  string
	said     int64
}

// Dest returns the scan destinations of [EventColumns].
func (e *EventScan) Dest() []any { return []any{&e.document, &e.Body, &e.message, &e.said} }

// Read returns the scanned event.
func (e *EventScan) Read() (federation.Event, error) {
	return eventform.Decode(eventform.Columns{Document: e.document, Body: e.Body, Message: e.message, Said: engine.Moment(e.said)})
}

// Erased returns the columns of an erased event, without the message and with the same time in the
// column said.
func (e *EventScan) Erased(ev federation.Event) (eventform.Columns, error) {
	return eventform.Encode(ev, "", engine.Moment(e.said))
}

// EntryColumns are the columns of an entry, of an event e.
const EntryColumns = `coalesce(e.version, 0), e.state, e.filed, ` + EventColumns

// EntryScan scans the columns of one entry.
type EntryScan struct {
	Entry federation.Entry
	filed int64
	event EventScan
}

// Dest returns the scan destinations of [EntryColumns].
func (e *EntryScan) Dest() []any {
	return append([]any{&e.Entry.Version, &e.Entry.State, &e.filed}, e.event.Dest()...)
}

// Read returns the scanned entry.
func (e *EntryScan) Read() (entry federation.Entry, err error) {
	entry = e.Entry
	entry.Filed = engine.Moment(e.filed)
	entry.Event, err = e.event.Read()
	if err == nil && entry.State == TextState {
		entry.Event, entry.Text = federation.Event{}, federation.TextOf(entry.Event)
	}
	return entry, err
}

func scanEntry(row engine.Scanner) (federation.Entry, error) {
	var e EntryScan
	if err := row.Scan(e.Dest()...); err != nil {
		return federation.Entry{}, err
	}
	return e.Read()
}

// Known returns the existing entry of a signer's step, found by its ID or otherwise by its digest,
// because a gateway that vouches twice for one message creates a new ID. It returns
// [federation.ErrNotFound] for a new step, and a [*federation.RefusalError] with
// [federation.EventIDInUse] if the ID was used for other bytes.
func (s *Logs) Known(ctx context.Context, from federation.DID, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	signer, err := s.db.Actor(ctx, from)
	var entry federation.Entry
	if err == nil {
		entry, err = s.known(ctx, signer, id, digest)
	}
	if err != nil {
		return federation.Entry{}, fmt.Errorf("look up step of %s: %w", from, err)
	}
	return entry, nil
}

// First checks for any matching row, because most steps are new.
func (s *Logs) known(ctx context.Context, signer int64, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	var there, gone bool
	err := s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM event WHERE signer = ?1 AND (id = ?2 OR digest = ?3 AND minted = 1)),
		EXISTS (SELECT 1 FROM tombstone WHERE id = ?2 OR signer = ?1 AND digest = ?3)`, []any{signer, id.String(), digest[:]}, &there, &gone)
	switch {
	case err != nil:
		return federation.Entry{}, err
	case there:
		return FindStep(ctx, s.db.Reads(), signer, id, digest)
	case gone:
		err = checkTombstone(ctx, s.db.Reads(), signer, id, digest)
	}
	return federation.Entry{}, cmp.Or(err, federation.ErrNotFound)
}

// FindStep finds a step by its ID, otherwise by its content: the same bytes with a new ID count as
// the first step.
func FindStep(ctx context.Context, q engine.Tx, signer int64, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	var e EntryScan
	var sameID, sameBytes bool
	err := q.Row(ctx, `SELECT `+EntryColumns+`, e.id = ?2, e.digest = ?3 FROM event e
		WHERE e.signer = ?1 AND (e.id = ?2 OR e.digest = ?3 AND e.minted = 1) ORDER BY e.id = ?2 DESC LIMIT 1`,
		[]any{signer, id.String(), digest[:]}, append(e.Dest(), &sameID, &sameBytes)...)
	if err != nil {
		return federation.Entry{}, err
	}
	if sameID && !sameBytes {
		return federation.Entry{}, &federation.RefusalError{Code: federation.EventIDInUse, Event: id}
	}
	return e.Read()
}

// Log yields the steps of one handoff after a version, oldest first; version 0 means all.
func (s *Logs) Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error] {
	return func(yield func(federation.Entry, error) bool) {
		from := min(after, math.MaxInt64) // the highest version
		for {
			page, err := engine.Rows(ctx, s.db.Reads(), scanEntry, `SELECT `+EntryColumns+` FROM event e
				WHERE e.handoff = ? AND e.version > ? ORDER BY e.version`+engine.AtMost, id.String(), from, logPage)
			if err != nil {
				yield(federation.Entry{}, fmt.Errorf("read log of %s: %w", id, err))
				return
			}
			for _, entry := range page {
				if !yield(entry, nil) {
					return
				}
				from = entry.Version
			}
			if len(page) < logPage {
				return
			}
		}
	}
}

// Receipts returns the home's receipts for the steps of a handoff, oldest first.
func (s *Logs) Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanEntry, `SELECT `+EntryColumns+` FROM event e
		WHERE e.handoff = ? AND e.version IS NULL ORDER BY e.seq`, id.String())
	if err != nil {
		return nil, fmt.Errorf("read receipts of %s: %w", id, err)
	}
	receipts := make([]federation.Event, len(found))
	for i, entry := range found {
		receipts[i] = entry.Event
	}
	return receipts, nil
}

// Step returns the entry of a step in the log of a handoff by its event ID, or
// [federation.ErrNotFound]. If several signers used the ID, it returns the first step.
func (s *Logs) Step(ctx context.Context, handoff federation.HandoffID, id federation.EventID) (federation.Entry, error) {
	var e EntryScan
	err := s.db.Reads().Row(ctx, `SELECT `+EntryColumns+` FROM event e
		WHERE e.id = ? AND e.handoff || '' = ? AND e.version IS NOT NULL ORDER BY e.version LIMIT 1`,
		[]any{id.String(), handoff.String()}, e.Dest()...)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("look up step %s: %w", id, err)
	}
	return e.Read()
}

// Reference returns the handoff of a step by its event ID or the ID of its message, or
// [federation.ErrNotFound]. An event ID takes precedence, and the first use of a message ID,
// because any sender may choose a message ID.
func (s *Logs) Reference(ctx context.Context, ref string) (federation.HandoffID, error) {
	var id federation.HandoffID
	var text string
	err := s.db.Reads().Row(ctx, `SELECT handoff FROM event WHERE (id = ?1 OR message = ?1) AND state <> 'said'
		ORDER BY id = ?1 DESC, seq LIMIT 1`, []any{ref}, &text)
	if err == nil {
		err = id.UnmarshalText([]byte(text))
	}
	if err != nil {
		return federation.HandoffID{}, fmt.Errorf("look up reference: %w", err)
	}
	return id, nil
}
