// Package homes stores facts about other homes in the record: addresses, misbehavior, forks, shared
// handoffs, rulings, and the locations of mailboxes.
package homes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
)

// Homes are the other homes of one record, safe for concurrent use.
type Homes struct {
	db        *engine.DB
	mailboxes engine.Cache[federation.DID, federation.MailboxLocation]
}

// New returns the homes in a database.
func New(db *engine.DB) *Homes {
	s := &Homes{db: db}
	s.mailboxes.Attach(db)
	return s
}

// RulingOn returns the document and the signature of the ruling for a filed step, or
// [federation.ErrNotFound].
func (s *Homes) RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error) {
	err = s.db.Reads().Row(ctx, `SELECT document, signature FROM ruling WHERE handoff = ? AND version = ?`,
		[]any{id.String(), version}, &document, &signature)
	if err != nil {
		return "", "", fmt.Errorf("read ruling %d of %s: %w", version, id, err)
	}
	return document, signature, nil
}

// Chain returns the [federation.Link] after a step of a log, or [federation.ErrNotFound]. An event
// row holds the link before the event.
func (s *Homes) Chain(ctx context.Context, id federation.HandoffID, version federation.Version) (link [32]byte, err error) {
	var found []byte
	err = s.db.Reads().Row(ctx, `SELECT coalesce(
			(SELECT prev FROM event WHERE handoff = ?1 AND version = ?2 + 1),
			(SELECT head FROM handoff WHERE id = ?1 AND version = ?2))`, []any{id.String(), version}, &found)
	if err == nil && len(found) != len(link) {
		err = federation.ErrNotFound
	}
	if err != nil {
		return link, fmt.Errorf("read chain of %s: %w", id, err)
	}
	copy(link[:], found)
	return link, nil
}

// KeepFork stores the proof of a fork. Only the first fork of a handoff is kept.
func (s *Homes) KeepFork(ctx context.Context, f federation.Fork) error {
	first, err := json.Marshal(f.First)
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	second, err := json.Marshal(f.Second)
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO fork (handoff, home, version, first, second, found) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			f.Handoff.String(), string(f.Home), f.Version, string(first), string(second), engine.Stamp(f.Found))
	})
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	return nil
}

// Forks returns up to limit proofs against a home, newest first.
func (s *Homes) Forks(ctx context.Context, home federation.HomeID, limit int) ([]federation.Fork, error) {
	scan := func(row engine.Scanner) (f federation.Fork, err error) {
		var handoff string
		var first, second []byte
		var found int64
		if err := row.Scan(&handoff, &f.Version, &first, &second, &found); err != nil {
			return f, err
		}
		f.Home, f.Found = home, engine.Moment(found)
		if f.Handoff, err = federation.ParseEventID(handoff); err != nil {
			return f, err
		}
		if err := federation.DecodeJSON(first, &f.First); err != nil {
			return f, err
		}
		return f, federation.DecodeJSON(second, &f.Second)
	}
	forks, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT handoff, version, first, second, found FROM fork
		WHERE home = ? ORDER BY found DESC, handoff`+engine.AtMost, string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read forks of %s: %w", home, err)
	}
	return forks, nil
}

// Forked reports whether there is proof that a handoff has two histories.
func (s *Homes) Forked(ctx context.Context, id federation.HandoffID) (forked bool, err error) {
	if err := s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM fork WHERE handoff = ?)`, []any{id.String()}, &forked); err != nil {
		return false, fmt.Errorf("look for forks of %s: %w", id, err)
	}
	return forked, nil
}

// KeepHome stores a home, replacing an earlier row.
func (s *Homes) KeepHome(ctx context.Context, h federation.KnownHome) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO known_home (home, url, path, since) VALUES (?, ?, ?, ?)
			ON CONFLICT (home) DO UPDATE SET url = excluded.url, path = excluded.path, since = excluded.since`,
			string(h.Home), h.URL, h.Path, engine.Stamp(h.Since))
	})
	if err != nil {
		return fmt.Errorf("keep home %s: %w", h.Home, err)
	}
	return nil
}

// ForgetHome deletes a home, or returns [federation.ErrNotFound].
func (s *Homes) ForgetHome(ctx context.Context, home federation.HomeID) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		var gone string
		return q.Row(ctx, `DELETE FROM known_home WHERE home = ? RETURNING home`, []any{string(home)}, &gone)
	})
	if err != nil {
		return fmt.Errorf("forget home %s: %w", home, err)
	}
	return nil
}

// KnownHomes returns the stored homes, ordered by name.
func (s *Homes) KnownHomes(ctx context.Context) ([]federation.KnownHome, error) {
	scan := func(row engine.Scanner) (h federation.KnownHome, err error) {
		var since int64
		err = row.Scan(&h.Home, &h.URL, &h.Path, &since)
		h.Since = engine.Moment(since)
		return h, err
	}
	known, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT home, url, path, since FROM known_home WHERE home > '' ORDER BY home`)
	if err != nil {
		return nil, fmt.Errorf("read known homes: %w", err)
	}
	return known, nil
}

// KnowsHomes reports whether the record has a mailbox location at a home other than self, or a
// binding of a DID that a home announced.
func (s *Homes) KnowsHomes(ctx context.Context, self federation.HomeID) (knows bool, err error) {
	err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM mailbox_location WHERE home < ?1) OR EXISTS (SELECT 1 FROM mailbox_location WHERE home > ?1)
		OR EXISTS (SELECT 1 FROM binding WHERE network = 'home')`, []any{string(self)}, &knows)
	if err != nil {
		return false, fmt.Errorf("list other homes: %w", err)
	}
	return knows, nil
}

// MailboxLocation returns the stored location of the mailbox of a DID, or [federation.ErrNotFound].
func (s *Homes) MailboxLocation(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	found, err := s.mailboxes.Find(did, func() (federation.MailboxLocation, error) {
		r := federation.MailboxLocation{DID: did}
		var since int64
		var former string
		err := s.db.Reads().Row(ctx, `SELECT home, source, since, origin FROM mailbox_location WHERE did = ?`, []any{did}, &r.Home, &r.Source, &since, &former)
		r.Since = engine.Moment(since)
		for home := range strings.FieldsSeq(former) {
			r.Former = append(r.Former, federation.HomeID(home))
		}
		return r, err
	})
	if err != nil {
		return federation.MailboxLocation{}, fmt.Errorf("read mailbox location of %s: %w", did, err)
	}
	return found, nil
}

// HasMoved reports whether an operator moved the mailbox of any DID from one home to another.
func (s *Homes) HasMoved(ctx context.Context, from, to federation.HomeID) (moved bool, err error) {
	err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM mailbox_location WHERE home = ? AND source = ? AND ' ' || origin || ' ' LIKE ?)`,
		[]any{string(to), string(federation.LocatedByMove), "% " + string(from) + " %"}, &moved)
	if err != nil {
		return false, fmt.Errorf("look for mailboxes moved from %s: %w", from, err)
	}
	return moved, nil
}

// KeepMailboxLocation replaces the stored location of the mailbox of a DID.
func (s *Homes) KeepMailboxLocation(ctx context.Context, r federation.MailboxLocation) error {
	former := make([]string, len(r.Former))
	for i, home := range r.Former {
		former[i] = string(home)
	}
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		q.Then(func() { s.mailboxes.Forget(r.DID) })
		return q.Put(ctx, `INSERT INTO mailbox_location (did, home, source, since, origin) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (did) DO UPDATE SET home = excluded.home, source = excluded.source, since = excluded.since, origin = excluded.origin`,
			r.DID, string(r.Home), string(r.Source), engine.Stamp(r.Since), strings.Join(former, " "))
	})
	if err != nil {
		return fmt.Errorf("keep mailbox location of %s: %w", r.DID, err)
	}
	return nil
}

// KeepMisbehavior counts misbehavior of a home at d.Last. The record has one row per home and kind,
// with the count and the last reason.
func (s *Homes) KeepMisbehavior(ctx context.Context, d federation.Misbehavior) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO offence (home, kind, times, first, last, why) VALUES (?1, ?2, 1, ?3, ?3, ?4)
			ON CONFLICT (home, kind) DO UPDATE SET times = offence.times + 1, last = excluded.last, why = excluded.why`,
			string(d.Home), string(d.Kind), engine.Stamp(d.Last), d.Why)
	})
	if err != nil {
		return fmt.Errorf("keep offence about %s: %w", d.Home, err)
	}
	return nil
}

// Misbehaviors returns the misbehavior of a home, ordered by kind.
func (s *Homes) Misbehaviors(ctx context.Context, home federation.HomeID) ([]federation.Misbehavior, error) {
	scan := func(row engine.Scanner) (federation.Misbehavior, error) {
		d := federation.Misbehavior{Home: home}
		var first, last int64
		err := row.Scan(&d.Kind, &d.Times, &first, &last, &d.Why)
		d.First, d.Last = engine.Moment(first), engine.Moment(last)
		return d, err
	}
	offences, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT kind, times, first, last, why FROM offence WHERE home = ? ORDER BY kind`, string(home))
	if err != nil {
		return nil, fmt.Errorf("read offences about %s: %w", home, err)
	}
	return offences, nil
}

// Shared returns up to limit handoffs after one, ordered by ID, with a step delivered to a home. An
// attempt without an answer counts too, because the home may have the step. A step of the outbox
// [federation.UnroutedLink] counts as delivered to the mailbox homes of the parties.
func (s *Homes) Shared(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	told, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, `SELECT h.id FROM handoff h WHERE h.id > ? AND EXISTS
		(SELECT 1 FROM event e JOIN delivery f ON f.item = e.seq JOIN destination d ON d.n = f.destination WHERE e.handoff = h.id AND
			(f.state = ? OR f.state = ? AND f.attempt > 0) AND
			(d.name = ? OR d.name = '`+federation.UnroutedLink+`' AND EXISTS
				(SELECT 1 FROM mailbox_location l JOIN actor a ON a.did = l.did WHERE l.home = ? AND a.n IN (h.offerer, h.offeree, h.assignee))))
		ORDER BY h.id`+engine.AtMost, after.String(), federation.DeliveryDelivered, federation.DeliveryWaiting, string(home), string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read handoffs announced to %s: %w", home, err)
	}
	return told, nil
}

// OfHome returns up to limit handoffs of a home after the given one, ordered by ID.
func (s *Homes) OfHome(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanHandoffID, `SELECT id FROM handoff WHERE id > ? AND view ->> 'home' = ? ORDER BY id`+engine.AtMost,
		after.String(), string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read handoffs of %s: %w", home, err)
	}
	return found, nil
}
