package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
	"baton/federation/store/inboxes"
	"baton/federation/store/operators"
	"baton/federation/store/outboxes"
	"baton/federation/store/participants"
	"baton/federation/store/pushes"
)

// filing is a [federation.Filing] made ready by its caller, so that the one
// goroutine that writes does nothing but write.
type filing struct {
	federation.Filing
	step    handoffs.Prepared
	receipt handoffs.Prepared
	view    []byte // as JSON
	before  *before
	record  *Record
}

// before is how a handoff stood before a step, as one question asks it.
type before struct {
	engine.Question

	version federation.Version // 0 of one that is not there
	// head is the link after its newest event, 32 zero bytes before the first. The chain is
	// over what was signed, and written by the home that orders the steps, since no signer
	// knows what precedes his own.
	head  []byte
	known bool // the step, or another one of its signer under its id
	spent bool // its id, or what was signed
	// Whether the handoff is in unseen, a webhook follows it, and a webhook gets the arrivals of an
	// inbox of the step. A write that changes webhooks asks no question, so it comes after this one.
	unseen, followed, called bool
}

// askBefore asks how the handoff of a step stands.
func askBefore(ev federation.Event, digest [32]byte, dids string) *before {
	b := &before{}
	b.Question = engine.Question{
		Query: `SELECT coalesce((SELECT version FROM handoff WHERE id = ?1), 0), coalesce((SELECT head FROM handoff WHERE id = ?1), ?5),
			EXISTS (SELECT 1 FROM event WHERE id = ?3 AND signer || '' = ?2) OR EXISTS (SELECT 1 FROM event WHERE signer = ?2 AND digest = ?4),
			EXISTS (SELECT 1 FROM tombstone WHERE id = ?3) OR EXISTS (SELECT 1 FROM tombstone WHERE signer = ?2 AND digest = ?4),
			EXISTS (SELECT 1 FROM unseen WHERE handoff = ?1), ` + pushes.HasFollower(`?1`) + `, ` + pushes.HasInboxes(`?6`),
		Args: []any{ev.Handoff.String(), ev.From, ev.ID.String(), digest[:], make([]byte, sha256.Size), dids},
		Dest: []any{&b.version, &b.head, &b.known, &b.spent, &b.unseen, &b.followed, &b.called},
		About: []string{
			"handoff " + ev.Handoff.String(), "id " + ev.ID.String(), "event " + string(ev.From) + " " + ev.ID.String(), "bytes " + string(ev.From) + " " + string(digest[:]),
		},
	}
	return b
}

// Append files a step. It returns [federation.ErrStale] when f.After is not the version of the
// log any more, and a [*federation.RefusalError] with [federation.EventIDInUse] when the signer
// used the id before for other bytes, or the handoff id opened another handoff. The same step
// twice (see [federation.Event.Digest]) is filed once and answered with the first Entry.
func (s *Record) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	ready, err := prepareFiling(f)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	var entry federation.Entry
	ready.record = s
	err = s.db.WriteAfter(ctx, []*engine.Question{&ready.before.Question}, func(ctx context.Context, q engine.Tx) error {
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
	if ready.step, err = handoffs.Prepare(f.Event); err != nil {
		return filing{}, err
	}
	if f.Receipt != nil {
		if ready.receipt, err = handoffs.Prepare(*f.Receipt); err != nil {
			return filing{}, fmt.Errorf("receipt: %w", err)
		}
	}
	dids, err := asJSON(f.Inboxes)
	if err != nil {
		return filing{}, err
	}
	ready.before = askBefore(f.Event, ready.step.Digest, dids)
	ready.view, err = json.Marshal(f.View)
	return ready, err
}

// file writes the step and everything that goes with it. All that can be in its way is
// asked before, in one question.
func (f filing) file(ctx context.Context, q engine.Tx) (federation.Entry, error) {
	ev := f.Event
	err := f.before.Answer(ctx, q)
	if err == nil && f.before.version == 0 && f.before.spent {
		err = handoffs.CheckOpening(ctx, q, ev, f.step.Digest)
	}
	switch {
	case err != nil:
		return federation.Entry{}, err
	case f.before.version > 0 && ev.ID == ev.Handoff:
		return f.first(ctx, q, federation.Refuse(ev, federation.EventIDInUse, ""))
	case f.before.version != f.After, f.before.known:
		return f.first(ctx, q, federation.ErrStale)
	}
	if err := f.insert(ctx, q, ev, f.step, place{version: f.View.Version, prev: f.before.head, key: handoffs.PlaceKey(f.View.Place())}); err != nil {
		return federation.Entry{}, fmt.Errorf("insert event: %w", err)
	}
	if err := f.advance(ctx, q, f.before.head); err != nil {
		return federation.Entry{}, fmt.Errorf("write handoff: %w", err)
	}
	if f.before.unseen && f.View.Clock != federation.UnansweredClock {
		if err := q.Put(ctx, `DELETE FROM unseen WHERE handoff = ?`, ev.Handoff.String()); err != nil {
			return federation.Entry{}, fmt.Errorf("note answered offer: %w", err)
		}
	}
	if err := f.rule(ctx, q); err != nil {
		return federation.Entry{}, err
	}
	if err := f.fileArrivals(ctx, q, federation.RankOf(ev, f.View)); err != nil {
		return federation.Entry{}, err
	}
	if f.before.followed || f.before.called {
		if err := f.push(ctx, q); err != nil {
			return federation.Entry{}, fmt.Errorf("queue for webhooks: %w", err)
		}
	}
	if err := handoffs.ClaimBlob(ctx, q, ev.Handoff.String(), federation.CapabilityIn(ev.Context)); err != nil {
		return federation.Entry{}, fmt.Errorf("claim blob: %w", err)
	}
	for _, effect := range f.Effects {
		if f.record.db.Tables == nil {
			return federation.Entry{}, fmt.Errorf("no table takes a %T", effect)
		}
		if err := f.record.db.Tables.Apply(ctx, q, effect); err != nil {
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
func (f filing) first(ctx context.Context, q engine.Tx, reason error) (federation.Entry, error) {
	entry, err := handoffs.FindStep(ctx, q, f.Event.From, f.Event.ID, f.step.Digest)
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
func (f filing) insert(ctx context.Context, q engine.Tx, ev federation.Event, p handoffs.Prepared, at place) error {
	return q.Put(ctx, `INSERT INTO event (handoff, version, signer, id, digest, prev, message, state, filed, body, place, said)
		VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		ev.Handoff.String(), at.version, ev.From, ev.ID.String(), p.Digest[:], at.prev,
		engine.OrNull(ev.Arrival.MessageID), f.View.State, engine.Stamp(f.Filed), string(p.Body),
		engine.OrNull(at.key), engine.Stamp(ev.Said()))
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
	return federation.Entry{Event: ev, Version: f.View.Version, State: f.View.State, Filed: engine.Moment(engine.Stamp(f.Filed))}
}

// advance moves the handoff to its next version.
func (f filing) advance(ctx context.Context, q engine.Tx, prev []byte) error {
	view := f.View
	link := sha256.Sum256(slices.Concat(prev, f.step.Document[:]))
	return q.Put(ctx, `INSERT INTO handoff (id, version, view, head, state, offerer, over, clock, since, moved)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, view = excluded.view, head = excluded.head,
			state = excluded.state, offerer = excluded.offerer, over = excluded.over, clock = excluded.clock,
			since = excluded.since, moved = excluded.moved`,
		view.ID.String(), view.Version, string(f.view), link[:],
		view.State, view.Offerer, view.Over, view.Clock, engine.Stamp(view.Since), engine.Stamp(view.Moved))
}

// fileArrivals puts the step into the inboxes, and with its receipt into the outboxes.
func (f filing) fileArrivals(ctx context.Context, q engine.Tx, rank federation.Rank) error {
	for _, did := range f.Inboxes {
		if err := inboxes.Insert(ctx, q, did, f.Event); err != nil {
			return err
		}
	}
	if err := f.deliver(ctx, q, f.Event, rank); err != nil || f.Receipt == nil {
		return err
	}
	if err := f.insert(ctx, q, *f.Receipt, f.receipt, place{}); err != nil {
		return fmt.Errorf("insert receipt: %w", err)
	}
	return f.deliver(ctx, q, *f.Receipt, federation.RankOf(*f.Receipt, f.View))
}

// push queues the step, or the text, for the webhooks of its inboxes, and a step for the webhooks
// that follow its handoff.
func (f filing) push(ctx context.Context, q engine.Tx) error {
	item := pushes.Item{Order: f.Event.Handoff.String(), Queued: engine.Stamp(f.Filed)}
	err := q.Row(ctx, `SELECT seq FROM event WHERE id = ? AND signer || '' = ?`, []any{f.Event.ID.String(), f.Event.From}, &item.Row)
	for _, did := range f.Inboxes {
		if err == nil {
			err = pushes.QueueEntry(ctx, q, did, item)
		}
	}
	if err == nil && f.View.Version > 0 {
		err = pushes.QueueStep(ctx, q, item)
	}
	return err
}

func (f filing) deliver(ctx context.Context, q engine.Tx, ev federation.Event, rank federation.Rank) error {
	for _, link := range f.Links {
		attempts := 0
		if slices.Contains(f.Once, link) {
			attempts = 1
		}
		err := outboxes.Put(ctx, q, outboxes.Row{
			Link: link, Signer: string(ev.From), ID: ev.ID.String(), Attempt: attempts, Handoff: f.View.ID.String(), Rank: rank, Filed: engine.Stamp(f.Filed),
		})
		if err != nil {
			return fmt.Errorf("write outbox: %w", err)
		}
	}
	return nil
}

// remember keeps the evidence, and what the step told about its signer.
func (f filing) remember(ctx context.Context, q engine.Tx) error {
	ev := f.Event
	if ev.Evidence != nil && ev.Evidence.Bytes != nil {
		if err := handoffs.KeepEvidence(ctx, q, ev.Handoff, *ev.Evidence); err != nil {
			return err
		}
	}
	for _, kept := range f.Kept {
		if err := participants.KeepKey(ctx, q, kept); err != nil {
			return err
		}
	}
	if err := participants.OwnKey(ctx, q, ev.Signature.Key, ev.From); err != nil {
		return err
	}
	if err := operators.Meet(ctx, q, f.Newcomer, f.Filed); err != nil {
		return err
	}
	if b, has := f.binding(); has {
		return f.record.KeepBinding(ctx, q, b)
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

// rule keeps the ruling by which a step was filed, for which it waits no more.
func (f filing) rule(ctx context.Context, q engine.Tx) error {
	if f.Ruling == nil {
		return nil
	}
	err := q.Put(ctx, `INSERT INTO ruling (handoff, version, document, signature) VALUES (?, ?, ?, ?)`,
		f.View.ID.String(), f.View.Version, f.Ruling.Document, f.Ruling.Signature)
	if err != nil {
		return fmt.Errorf("write ruling: %w", err)
	}
	if err := handoffs.ReleasePending(ctx, q, f.Event.Handoff, f.Event.From, f.Event.ID); err != nil {
		return fmt.Errorf("release step: %w", err)
	}
	return nil
}
