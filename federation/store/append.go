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
}

// prepared is one event ready to be written.
type prepared struct {
	digest   [32]byte // what makes two arrivals one event
	document [32]byte // SHA-256 of what was signed
	body     []byte   // as JSON
}

// Append implements [federation.Store].
func (s *Record) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	ready, err := prepareFiling(f)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	var entry federation.Entry
	err = s.write(ctx, func(ctx context.Context, q *statements) error {
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

// file writes the step and everything that goes with it. It looks for the step
// only after it could not be written: most steps are new.
func (f filing) file(ctx context.Context, q *statements) (federation.Entry, error) {
	ev := f.Event
	version, prev, err := head(ctx, q, ev.Handoff)
	if err == nil && version == 0 {
		err = unspent(ctx, q, ev, f.step.digest)
	}
	switch {
	case err != nil:
		return federation.Entry{}, err
	case version > 0 && ev.ID == ev.Handoff:
		return f.first(ctx, q, federation.Refuse(ev, federation.EventIDInUse, ""))
	case version != f.After:
		return f.first(ctx, q, federation.ErrStale)
	}
	seq, err := f.insert(ctx, q, ev, f.step, place{version: f.View.Version, prev: prev, key: placeKey(f.View.Place())})
	if errors.Is(err, federation.ErrNotFound) {
		return f.first(ctx, q, federation.ErrStale)
	}
	if err != nil {
		return federation.Entry{}, fmt.Errorf("insert event: %w", err)
	}
	if err := f.advance(ctx, q, prev); err != nil {
		return federation.Entry{}, fmt.Errorf("write handoff: %w", err)
	}
	if err := f.rule(ctx, q); err != nil {
		return federation.Entry{}, err
	}
	if err := f.owe(ctx, q, seq); err != nil {
		return federation.Entry{}, err
	}
	if err := claimBlob(ctx, q, ev.Handoff.String(), federation.CapabilityIn(ev.Context)); err != nil {
		return federation.Entry{}, fmt.Errorf("claim blob: %w", err)
	}
	for _, p := range f.Messages {
		if _, err := post(ctx, q, p); err != nil {
			return federation.Entry{}, fmt.Errorf("post message: %w", err)
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

// head returns the version of a handoff and the link after its newest event:
// 0 and 32 zero bytes before the first. The chain is over what was signed, and
// written by the home that orders the steps, since no signer knows what precedes
// his own.
func head(ctx context.Context, q *statements, id federation.HandoffID) (version federation.Version, link []byte, err error) {
	err = q.row(ctx, `SELECT version, head FROM handoff WHERE id = ?`, []any{id.String()}, &version, &link)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return 0, make([]byte, sha256.Size), nil
	case err != nil:
		return 0, nil, fmt.Errorf("read handoff: %w", err)
	}
	return version, link, nil
}

// place is where an event is in the log of its handoff, and where that is written. That
// of a receipt is the zero place: nowhere.
type place struct {
	version federation.Version
	prev    []byte
	key     string // where it is written
}

// insert writes one event, or returns [federation.ErrNotFound] where its signer
// has one with that id or digest.
func (f filing) insert(ctx context.Context, q *statements, ev federation.Event, p prepared, at place) (seq int64, err error) {
	err = q.row(ctx, `INSERT INTO event (handoff, version, signer, id, digest, prev, message, state, filed, body, place, said)
		VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq`,
		[]any{
			ev.Handoff.String(), at.version, ev.From, ev.ID.String(), p.digest[:], at.prev,
			orNull(ev.Arrival.MessageID), f.View.State, stamp(f.Filed), string(p.body),
			orNull(at.key), stamp(ev.Said()),
		}, &seq)
	return seq, err
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

// owe puts the step into the inboxes, and with its receipt into the feeds.
func (f filing) owe(ctx context.Context, q *statements, seq int64) error {
	for _, did := range f.Inboxes {
		err := q.put(ctx, `INSERT INTO inbox (did, event, waiting, number)
			VALUES (?1, ?2, ?3, 1 + coalesce((SELECT number FROM mailbox WHERE did = ?1), 0))`,
			did, seq, len(f.Event.Signature.Document))
		if err != nil {
			return fmt.Errorf("write inbox: %w", err)
		}
	}
	if err := f.feed(ctx, q, seq, f.Event); err != nil || f.Receipt == nil {
		return err
	}
	seq, err := f.insert(ctx, q, *f.Receipt, f.receipt, place{})
	if err != nil {
		return fmt.Errorf("insert receipt: %w", err)
	}
	return f.feed(ctx, q, seq, *f.Receipt)
}

func (f filing) feed(ctx context.Context, q *statements, seq int64, ev federation.Event) error {
	for _, link := range f.Feeds {
		attempts := 0
		if slices.Contains(f.Once, link) {
			attempts = 1
		}
		err := putFeed(ctx, q, feedRow{
			link: link, event: seq, attempt: attempts, handoff: f.View.ID.String(), rank: federation.RankOf(ev, f.View), filed: stamp(f.Filed),
		})
		if err != nil {
			return fmt.Errorf("write feed: %w", err)
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
	if ev.Arrival.Name == "" {
		return nil
	}
	b := federation.Binding{
		DID:     ev.From,
		Network: ev.Arrival.Network,
		Link:    ev.Arrival.Link,
		Name:    ev.Arrival.Name,
		First:   ev.Arrival.Name,
		Key:     ev.Signature.Key,
		Seen:    ev.Arrival.Received,
	}
	if ev.Provenance == federation.Vouched && ev.For != "" { // the name is whose step it is, and the key is not
		b.DID, b.Key = ev.For, nil
	}
	return bind(ctx, q, b)
}
