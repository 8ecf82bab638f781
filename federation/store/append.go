package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/operators"
	"github.com/baton-gateway/baton/federation/store/participants"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// The caller prepares it, to keep this work out of the single writer goroutine.
type filing struct {
	federation.Filing
	step    handoffs.Prepared
	receipt handoffs.Prepared
	view    []byte // as JSON
	actors  actors
	keys    []keyRow         // not known to be on disk
	links   map[string]int64 // 0 for a new one
	before  *before
	record  *Record
}

// This is the owner of a key kept by the gateway, or of the signing key.
type keyRow struct {
	federation.KeptKey

	kept bool
}

// The number is 0 for a DID without a number.
type actors map[federation.DID]int64

type before struct {
	engine.Question

	version federation.Version
	// The chain link after the newest event, at first 32 zero bytes. Only the home that orders the
	// steps writes the chain.
	head  []byte
	known bool // the filed step, or another step of its signer with its ID
	spent bool // tombstones of its ID or its signed document
	// Writes that change webhooks have no query before the write, so they run after this one.
	unseen, followed, called bool
}

func (b *before) admits(version federation.Version) bool { return b.version == version && !b.known }

func precheck(ev federation.Event, signer int64, digest [32]byte, dids string) *before {
	// An earlier write of the same batch may have assigned a number to the signer.
	const bySigner = `(SELECT CASE WHEN ?2 <> 0 THEN CAST(?2 AS bigint) ELSE (SELECT n FROM actor WHERE did = ?8) END)`
	b := &before{}
	b.Question = engine.Question{
		Query: `SELECT coalesce((SELECT version FROM handoff WHERE id = ?1), 0), coalesce((SELECT head FROM handoff WHERE id = ?1), ?5),
			EXISTS (SELECT 1 FROM event WHERE id = ?3 AND signer = ` + bySigner + `) OR ?6 = 1 AND EXISTS (SELECT 1 FROM event WHERE signer = ` + bySigner + ` AND digest = ?4 AND minted = 1),
			EXISTS (SELECT 1 FROM tombstone WHERE id = ?3) OR EXISTS (SELECT 1 FROM tombstone WHERE signer = ` + bySigner + ` AND digest = ?4),
			EXISTS (SELECT 1 FROM unseen WHERE handoff = ?1), ` + queue.HasFollower(`?1`) + `, ` + queue.HasInboxes(`?7`),
		Args: []any{ev.Handoff.String(), signer, ev.ID.String(), digest[:], make([]byte, sha256.Size), ev.Minted(), dids, ev.From},
		Dest: []any{&b.version, &b.head, &b.known, &b.spent, &b.unseen, &b.followed, &b.called},
		About: []string{
			"handoff " + ev.Handoff.String(), "id " + ev.ID.String(), "event " + string(ev.From) + " " + ev.ID.String(), "bytes " + string(ev.From) + " " + string(digest[:]),
		},
	}
	return b
}

// Append files a step. It returns [federation.ErrStale] if f.After is not the current version of
// the log. It returns a [*federation.RefusalError] with [federation.EventIDInUse] if the signer has
// used the ID for other bytes, or the handoff ID belongs to another handoff. For a repeated step it
// returns the first Entry.
func (s *Record) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	ready, err := s.prepareFiling(ctx, f)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	var entry federation.Entry
	err = s.db.WriteAfter(ctx, []*engine.Question{&ready.before.Question}, func(ctx context.Context, q engine.Tx) error {
		var err error
		entry, err = ready.file(ctx, q)
		return err
	})
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	if ready.before.admits(f.After) {
		s.keyRows.Add(ready.keys...)
	}
	return entry, nil
}

func (s *Record) prepareFiling(ctx context.Context, f federation.Filing) (ready filing, err error) {
	if f.View.ID != f.Event.Handoff || f.View.Version != f.After+1 {
		return filing{}, errors.New("the view is not that after the step")
	}
	ready.Filing, ready.record = f, s
	if ready.step, err = handoffs.Prepare(f.Event); err != nil {
		return filing{}, err
	}
	if f.Receipt != nil {
		if ready.receipt, err = handoffs.Prepare(*f.Receipt); err != nil {
			return filing{}, fmt.Errorf("receipt: %w", err)
		}
	}
	if ready.actors, err = s.actorsOf(ctx, f); err != nil {
		return filing{}, err
	}
	ready.keys = s.newKeys(f)
	if ready.links, err = s.linksOf(ctx, f); err != nil {
		return filing{}, err
	}
	dids, err := asJSON(f.Inboxes)
	if err != nil {
		return filing{}, err
	}
	ready.before = precheck(f.Event, ready.actors[f.Event.From], ready.step.Digest, dids)
	ready.view, err = json.Marshal(f.View)
	return ready, err
}

func (s *Record) newKeys(f federation.Filing) []keyRow {
	var rows []keyRow
	for _, kept := range f.Kept {
		rows = append(rows, keyRow{kept, true})
	}
	if key := f.Event.Signature.Key; len(key) > 0 {
		rows = append(rows, keyRow{KeptKey: federation.KeptKey{ID: federation.KeyID(key), Owner: f.Event.From}})
	}
	return slices.DeleteFunc(rows, s.keyRows.Has)
}

func (s *Record) actorsOf(ctx context.Context, f federation.Filing) (actors, error) {
	dids := append([]federation.DID{f.Event.From, f.Event.For, f.Event.To, f.View.Offerer, f.View.Offeree, f.View.Assignee}, f.Inboxes...)
	if f.Receipt != nil {
		dids = append(dids, f.Receipt.From, f.Receipt.For, f.Receipt.To)
	}
	known := actors{}
	for _, did := range dids {
		if did == "" {
			continue
		}
		n, err := s.db.Actor(ctx, did)
		if err != nil {
			return nil, err
		}
		known[did] = n
	}
	return known, nil
}

func (s *Record) linksOf(ctx context.Context, f federation.Filing) (map[string]int64, error) {
	known := map[string]int64{}
	for _, link := range f.Links {
		n, err := s.db.Destination(ctx, link)
		if err != nil {
			return nil, err
		}
		known[link] = n
	}
	return known, nil
}

// New DIDs get a number in the transaction.
func (f filing) intern(ctx context.Context, q engine.Tx) (actors, error) {
	all := maps.Clone(f.actors)
	for _, did := range slices.Sorted(maps.Keys(f.actors)) { // for deterministic numbering
		if f.actors[did] != 0 {
			continue
		}
		n, err := engine.Intern(ctx, q, did)
		if err != nil {
			return nil, err
		}
		all[did] = n
	}
	return all, nil
}

// The earlier query has checked all possible conflicts.
func (f filing) file(ctx context.Context, q engine.Tx) (federation.Entry, error) {
	ev := f.Event
	err := f.before.Answer(ctx, q)
	if err == nil {
		f.actors, err = f.intern(ctx, q)
	}
	if err == nil && f.before.version == 0 && f.before.spent {
		err = handoffs.CheckOpening(ctx, q, ev, f.actors[ev.From], f.step.Digest)
	}
	switch {
	case err != nil:
		return federation.Entry{}, err
	case f.before.version > 0 && ev.ID == ev.Handoff:
		return f.first(ctx, q, federation.Refuse(ev, federation.EventIDInUse, ""))
	case !f.before.admits(f.After):
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
			return federation.Entry{}, fmt.Errorf("no table stores a %T", effect)
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

// Returns the existing entry of a step that cannot be written, otherwise the reason.
func (f filing) first(ctx context.Context, q engine.Tx, reason error) (federation.Entry, error) {
	entry, err := handoffs.FindStep(ctx, q, f.actors[f.Event.From], f.Event.ID, f.step.Digest)
	if errors.Is(err, federation.ErrNotFound) {
		err = reason
	}
	return entry, err
}

// The place is zero for a receipt.
type place struct {
	version federation.Version
	prev    []byte
	key     string // its venue
}

func (f filing) insert(ctx context.Context, q engine.Tx, ev federation.Event, p handoffs.Prepared, at place) error {
	if err := f.record.db.Signed(ctx, q, ev.From); err != nil {
		return err
	}
	return q.Put(ctx, `INSERT INTO event (handoff, version, signer, id, digest, minted, prev, message, state, filed, document, body, author, recipient, place, said)
		VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), ?, ?)`,
		ev.Handoff.String(), at.version, f.actors[ev.From], ev.ID.String(), p.Digest[:], ev.Minted(), at.prev,
		engine.OrNull(ev.Arrival.MessageID), f.View.State, engine.Stamp(f.Filed), p.Columns.Document, string(p.Columns.Body),
		f.actors[ev.For], f.actors[ev.To], engine.OrNull(at.key), engine.Stamp(ev.ShownAt()))
}

// Later reads return this form, without the bytes of the evidence, which are stored separately.
func (f filing) entry() federation.Entry {
	ev := f.Event
	if ev.Evidence != nil {
		bare := *ev.Evidence
		bare.Bytes = nil
		ev.Evidence = &bare
	}
	return federation.Entry{Event: ev, Version: f.View.Version, State: f.View.State, Filed: engine.Moment(engine.Stamp(f.Filed))}
}

func (f filing) advance(ctx context.Context, q engine.Tx, prev []byte) error {
	view := f.View
	link := sha256.Sum256(slices.Concat(prev, f.step.Document[:]))
	return q.Put(ctx, `INSERT INTO handoff (id, version, view, head, state, offerer, offeree, assignee, over, clock, since, moved)
		VALUES (?, ?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, view = excluded.view, head = excluded.head,
			state = excluded.state, offerer = excluded.offerer, offeree = excluded.offeree, assignee = excluded.assignee,
			over = excluded.over, clock = excluded.clock, since = excluded.since, moved = excluded.moved`,
		view.ID.String(), view.Version, string(f.view), link[:],
		view.State, f.actors[view.Offerer], f.actors[view.Offeree], f.actors[view.Assignee], view.Over, view.Clock, engine.Stamp(view.Since), engine.Stamp(view.Moved))
}

func (f filing) fileArrivals(ctx context.Context, q engine.Tx, rank federation.Rank) error {
	for _, did := range f.Inboxes {
		if err := inboxes.Insert(ctx, q, f.actors[did], f.actors[f.Event.From], f.Event); err != nil {
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

func (f filing) push(ctx context.Context, q engine.Tx) error {
	item := queue.Row{Lane: f.Event.Handoff.String(), Sender: f.actors[f.Event.From], Queued: engine.Stamp(f.Filed)}
	err := q.Row(ctx, `SELECT seq FROM event WHERE id = ? AND signer = ?`, []any{f.Event.ID.String(), item.Sender}, &item.Item)
	for _, did := range f.Inboxes {
		if err == nil {
			err = queue.PushEntry(ctx, q, did, item)
		}
	}
	if err == nil && f.View.Version > 0 {
		err = queue.PushStep(ctx, q, item)
	}
	return err
}

func (f filing) deliver(ctx context.Context, q engine.Tx, ev federation.Event, rank federation.Rank) error {
	for _, link := range f.Links {
		attempts := 0
		if slices.Contains(f.Once, link) {
			attempts = 1
		}
		to := f.links[link]
		if to == 0 {
			var err error
			if to, err = engine.InternDestination(ctx, q, federation.ToLink, link); err != nil {
				return err
			}
		}
		err := queue.PutStep(ctx, q, queue.Row{
			Destination: to, Sender: f.actors[ev.From], Attempt: attempts, Lane: f.View.ID.String(), Rank: rank, Queued: engine.Stamp(f.Filed),
		}, ev.ID.String())
		if err != nil {
			return fmt.Errorf("write outbox: %w", err)
		}
	}
	return nil
}

func (f filing) remember(ctx context.Context, q engine.Tx) error {
	ev := f.Event
	if ev.Evidence != nil && ev.Evidence.Bytes != nil {
		if err := handoffs.KeepEvidence(ctx, q, ev.Handoff, *ev.Evidence); err != nil {
			return err
		}
	}
	for _, row := range f.keys {
		write := participants.OwnKey
		if row.kept {
			write = participants.KeepKey
		}
		if err := write(ctx, q, row.KeptKey); err != nil {
			return err
		}
		q.Then(func() { f.record.db.KeyOwners.Forget(row.ID) })
	}
	if err := operators.Meet(ctx, q, f.Newcomer, f.Filed); err != nil {
		return err
	}
	if b, has := f.binding(); has && !f.record.HasBinding(b) {
		return f.record.KeepBinding(ctx, q, b)
	}
	return nil
}

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
	if ev.Provenance == federation.Vouched && ev.For != "" { // For has the name, From has the key
		b.DID, b.Key = ev.For, nil
	}
	return b, true
}

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
