package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"baton/federation"
)

// filing is a [federation.Filing] made ready by its caller, so that the one
// goroutine that writes does nothing but write.
type filing struct {
	federation.Filing
	step    prepared
	receipt prepared
	view    []byte // as JSON
	before  *before
	tables  Tables
}

// before is how a handoff stood before a step, as one question asks it.
type before struct {
	question

	version federation.Version // 0 of one that is not there
	// head is the link after its newest event, 32 zero bytes before the first. The chain is
	// over what was signed, and written by the home that orders the steps, since no signer
	// knows what precedes his own.
	head  []byte
	known bool // the step, or another one of its signer under its id
	spent bool // its id, or what was signed
}

// askBefore asks how the handoff of a step stands. The signer of an id is an expression that
// no index has, so that the database searches by the id: PostgreSQL, while it has no
// statistics of the table, may search by the signer, and read all events of it.
func askBefore(ev federation.Event, digest [32]byte) *before {
	b := &before{}
	b.question = question{
		query: `SELECT coalesce((SELECT version FROM handoff WHERE id = ?1), 0), coalesce((SELECT head FROM handoff WHERE id = ?1), ?5),
			EXISTS (SELECT 1 FROM event WHERE id = ?3 AND signer || '' = ?2) OR EXISTS (SELECT 1 FROM event WHERE signer = ?2 AND digest = ?4),
			EXISTS (SELECT 1 FROM tombstone WHERE id = ?3) OR EXISTS (SELECT 1 FROM tombstone WHERE signer = ?2 AND digest = ?4)`,
		args: []any{ev.Handoff.String(), ev.From, ev.ID.String(), digest[:], make([]byte, sha256.Size)},
		dest: []any{&b.version, &b.head, &b.known, &b.spent},
		about: []string{
			"handoff " + ev.Handoff.String(), "id " + ev.ID.String(), "event " + string(ev.From) + " " + ev.ID.String(), "bytes " + string(ev.From) + " " + string(digest[:]),
		},
	}
	return b
}

// prepared is one event ready to be written.
type prepared struct {
	digest   [32]byte // two arrivals with one digest are one event
	document [32]byte // SHA-256 of what was signed
	body     []byte   // as JSON
}

// Append implements [federationtest.Store].
func (s *Record) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	ready, err := prepareFiling(f)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	var entry federation.Entry
	ready.tables = s.tables
	err = s.writes.do(ctx, &ready.before.question, func(ctx context.Context, q *statements) error {
		if b, has := ready.binding(); has {
			q.then(func() { s.bindings.forget(b.DID) })
		}
		var err error
		entry, err = ready.file(ctx, q)
		return err
	})
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	return entry, nil
}

func prepareFiling(f federation.Filing) (ready filing, err error) {
	if f.View.ID != f.Event.Handoff || f.View.Version != f.After+1 {
		return filing{}, errors.New("the view is not that after the step")
	}
	ready.Filing = f
	if ready.step, err = prepare(f.Event); err != nil {
		return filing{}, err
	}
	if f.Receipt != nil {
		if ready.receipt, err = prepare(*f.Receipt); err != nil {
			return filing{}, fmt.Errorf("receipt: %w", err)
		}
	}
	ready.before = askBefore(f.Event, ready.step.digest)
	ready.view, err = json.Marshal(f.View)
	return ready, err
}

func prepare(ev federation.Event) (prepared, error) {
	switch {
	case ev.ID.IsZero() || ev.Handoff.IsZero():
		return prepared{}, errors.New("the event has no id")
	case !keepsText(ev):
		return prepared{}, errors.New("what was signed is not UTF-8, which JSON cannot keep")
	}
	body, err := json.Marshal(ev)
	return prepared{
		digest:   ev.Digest(),
		document: sha256.Sum256([]byte(ev.Signature.Document)),
		body:     body,
	}, err
}

// keepsText reports whether JSON keeps what was signed verbatim: other bytes than
// UTF-8 it replaces without a word.
func keepsText(ev federation.Event) bool {
	for name, value := range ev.Fields {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return utf8.ValidString(ev.Signature.Document) && utf8.ValidString(ev.Signature.Text)
}

// file writes the step and everything that goes with it. All that can be in its way is
// asked before, in one question.
func (f filing) file(ctx context.Context, q *statements) (federation.Entry, error) {
	ev := f.Event
	err := f.before.answer(ctx, q)
	if err == nil && f.before.version == 0 && f.before.spent {
		err = checkOpening(ctx, q, ev, f.step.digest)
	}
	switch {
	case err != nil:
		return federation.Entry{}, err
	case f.before.version > 0 && ev.ID == ev.Handoff:
		return f.first(ctx, q, federation.Refuse(ev, federation.EventIDInUse, ""))
	case f.before.version != f.After, f.before.known:
		return f.first(ctx, q, federation.ErrStale)
	}
	if err := f.insert(ctx, q, ev, f.step, place{version: f.View.Version, prev: f.before.head, key: placeKey(f.View.Place())}); err != nil {
		return federation.Entry{}, fmt.Errorf("insert event: %w", err)
	}
	if err := f.advance(ctx, q, f.before.head); err != nil {
		return federation.Entry{}, fmt.Errorf("write handoff: %w", err)
	}
	if err := f.rule(ctx, q); err != nil {
		return federation.Entry{}, err
	}
	if err := f.fileArrivals(ctx, q); err != nil {
		return federation.Entry{}, err
	}
	if err := claimBlob(ctx, q, ev.Handoff.String(), federation.CapabilityIn(ev.Context)); err != nil {
		return federation.Entry{}, fmt.Errorf("claim blob: %w", err)
	}
	for _, effect := range f.Effects {
		if f.tables == nil {
			return federation.Entry{}, fmt.Errorf("no table takes a %T", effect)
		}
		if err := f.tables.Apply(ctx, Tx{q}, effect); err != nil {
			return federation.Entry{}, err
		}
	}
	if err := f.remember(ctx, q); err != nil {
		return federation.Entry{}, err
	}
	return f.entry(), nil
}

// first answers a step that cannot be written with the entry that it already has,
// or else with the reason.
func (f filing) first(ctx context.Context, q *statements, reason error) (federation.Entry, error) {
	entry, err := known(ctx, q, f.Event.From, f.Event.ID, f.step.digest)
	if errors.Is(err, federation.ErrNotFound) {
		err = reason
	}
	return entry, err
}

// place is where an event is in the log of its handoff, and where that is written. That
// of a receipt is the zero place: nowhere.
type place struct {
	version federation.Version
	prev    []byte
	key     string // where it is written
}

// insert writes one event, which its signer does not have yet.
func (f filing) insert(ctx context.Context, q *statements, ev federation.Event, p prepared, at place) error {
	return q.put(ctx, `INSERT INTO event (handoff, version, signer, id, digest, prev, message, state, filed, body, place, said)
		VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		ev.Handoff.String(), at.version, ev.From, ev.ID.String(), p.digest[:], at.prev,
		orNull(ev.Arrival.MessageID), f.View.State, stamp(f.Filed), string(p.body),
		orNull(at.key), stamp(ev.Said()))
}

// entry is what a later read of the step returns: without the bytes of the
// evidence, which are kept beside it.
func (f filing) entry() federation.Entry {
	ev := f.Event
	if ev.Evidence != nil {
		bare := *ev.Evidence
		bare.Bytes = nil
		ev.Evidence = &bare
	}
	return federation.Entry{Event: ev, Version: f.View.Version, State: f.View.State, Filed: moment(stamp(f.Filed))}
}

// advance moves the handoff to its next version.
func (f filing) advance(ctx context.Context, q *statements, prev []byte) error {
	view := f.View
	link := sha256.Sum256(slices.Concat(prev, f.step.document[:]))
	return q.put(ctx, `INSERT INTO handoff (id, version, view, head, state, offerer, over, clock, since, moved)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, view = excluded.view, head = excluded.head,
			state = excluded.state, offerer = excluded.offerer, over = excluded.over, clock = excluded.clock,
			since = excluded.since, moved = excluded.moved`,
		view.ID.String(), view.Version, string(f.view), link[:],
		view.State, view.Offerer, view.Over, view.Clock, stamp(view.Since), stamp(view.Moved))
}

// deliver puts the step into the inboxes, and with its receipt into the outboxes. See
// askBefore for the comparison of signers.
func (f filing) fileArrivals(ctx context.Context, q *statements) error {
	for _, did := range f.Inboxes {
		err := q.put(ctx, `INSERT INTO inbox (did, event, waiting, number)
			SELECT ?1, seq, ?2, 1 + coalesce((SELECT number FROM mailbox WHERE did = ?1), 0) FROM event WHERE id = ?4 AND signer || '' = ?3`,
			did, len(f.Event.Signature.Document), f.Event.From, f.Event.ID.String())
		if err != nil {
			return fmt.Errorf("write inbox: %w", err)
		}
	}
	if err := f.deliver(ctx, q, f.Event); err != nil || f.Receipt == nil {
		return err
	}
	if err := f.insert(ctx, q, *f.Receipt, f.receipt, place{}); err != nil {
		return fmt.Errorf("insert receipt: %w", err)
	}
	return f.deliver(ctx, q, *f.Receipt)
}

func (f filing) deliver(ctx context.Context, q *statements, ev federation.Event) error {
	for _, link := range f.Links {
		attempts := 0
		if slices.Contains(f.Once, link) {
			attempts = 1
		}
		err := putDelivery(ctx, q, outboxRow{
			link: link, signer: string(ev.From), id: ev.ID.String(), attempt: attempts, handoff: f.View.ID.String(), rank: federation.RankOf(ev, f.View), filed: stamp(f.Filed),
		})
		if err != nil {
			return fmt.Errorf("write outbox: %w", err)
		}
	}
	return nil
}

// remember keeps the evidence, and what the step told about its signer.
func (f filing) remember(ctx context.Context, q *statements) error {
	ev := f.Event
	if ev.Evidence != nil && ev.Evidence.Bytes != nil {
		if err := keep(ctx, q, ev.Handoff, *ev.Evidence); err != nil {
			return err
		}
	}
	if err := ownKey(ctx, q, ev.Signature.Key, ev.From); err != nil {
		return err
	}
	if err := meet(ctx, q, f.Newcomer, f.Filed); err != nil {
		return err
	}
	if b, has := f.binding(); has {
		return bind(ctx, q, b)
	}
	return nil
}

// binding returns where the step shows its signer to be, if it does.
func (f filing) binding() (b federation.Binding, has bool) {
	ev := f.Event
	if ev.Arrival.Name == "" {
		return b, false
	}
	b = federation.Binding{
		DID:     ev.From,
		Network: ev.Arrival.Network,
		Link:    ev.Arrival.Link,
		Name:    ev.Arrival.Name,
		First:   ev.Arrival.Name,
		Key:     ev.Signature.Key,
		Seen:    ev.Arrival.Received,
	}
	if ev.Provenance == federation.Vouched && ev.For != "" { // the name belongs to the DID that the step stands for, and the key does not
		b.DID, b.Key = ev.For, nil
	}
	return b, true
}
