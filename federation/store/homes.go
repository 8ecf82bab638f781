package store

import (
	"context"
	"encoding/json"
	"fmt"

	"baton/federation"
)

// rule keeps the ruling by which a step was filed, for which it waits no more.
func (f filing) rule(ctx context.Context, q *statements) error {
	if f.Ruling == nil {
		return nil
	}
	err := q.put(ctx, `INSERT INTO ruling (handoff, version, document, signature) VALUES (?, ?, ?, ?)`,
		f.View.ID.String(), f.View.Version, f.Ruling.Document, f.Ruling.Signature)
	if err != nil {
		return fmt.Errorf("write ruling: %w", err)
	}
	if err := release(ctx, q, f.Event.Handoff, f.Event.From, f.Event.ID); err != nil {
		return fmt.Errorf("release step: %w", err)
	}
	return nil
}

// Chain implements [federationtest.Homes]. An event has the chain before it.
func (s *Record) Chain(ctx context.Context, id federation.HandoffID, version federation.Version) (link [32]byte, err error) {
	var found []byte
	err = s.reads.row(ctx, `SELECT coalesce(
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

// RulingOn implements [federationtest.Homes].
func (s *Record) RulingOn(ctx context.Context, id federation.HandoffID, version federation.Version) (document, signature string, err error) {
	err = s.reads.row(ctx, `SELECT document, signature FROM ruling WHERE handoff = ? AND version = ?`,
		[]any{id.String(), version}, &document, &signature)
	if err != nil {
		return "", "", fmt.Errorf("read ruling %d of %s: %w", version, id, err)
	}
	return document, signature, nil
}

// KeepFork implements [federationtest.Homes].
func (s *Record) KeepFork(ctx context.Context, f federation.Fork) error {
	first, err := json.Marshal(f.First)
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	second, err := json.Marshal(f.Second)
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	err = s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, `INSERT INTO fork (handoff, home, version, first, second, found) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			f.Handoff.String(), string(f.Home), f.Version, string(first), string(second), stamp(f.Found))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep fork of %s: %w", f.Handoff, err)
	}
	return nil
}

// Forks implements [federationtest.Homes].
func (s *Record) Forks(ctx context.Context, home federation.HomeID, limit int) ([]federation.Fork, error) {
	scan := func(row scanner) (f federation.Fork, err error) {
		var handoff string
		var first, second []byte
		var found int64
		if err := row.Scan(&handoff, &f.Version, &first, &second, &found); err != nil {
			return f, err
		}
		f.Home, f.Found = home, moment(found)
		if f.Handoff, err = federation.ParseEventID(handoff); err != nil {
			return f, err
		}
		if err := json.Unmarshal(first, &f.First); err != nil {
			return f, err
		}
		return f, json.Unmarshal(second, &f.Second)
	}
	forks, err := rows(ctx, s.reads, scan, `SELECT handoff, version, first, second, found FROM fork
		WHERE home = ? ORDER BY found DESC, handoff`+atMost, string(home), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read forks of %s: %w", home, err)
	}
	return forks, nil
}

// Forked implements [federationtest.Homes].
func (s *Record) Forked(ctx context.Context, id federation.HandoffID) (forked bool, err error) {
	if err := s.reads.row(ctx, `SELECT EXISTS (SELECT 1 FROM fork WHERE handoff = ?)`, []any{id.String()}, &forked); err != nil {
		return false, fmt.Errorf("look for forks of %s: %w", id, err)
	}
	return forked, nil
}

// Shared implements [federationtest.Homes].
func (s *Record) Shared(ctx context.Context, home federation.HomeID, after federation.HandoffID, limit int) ([]federation.HandoffID, error) {
	told, err := rows(ctx, s.reads, scanHandoffID, `SELECT h.id FROM handoff h WHERE h.id > ? AND EXISTS
		(SELECT 1 FROM event e JOIN settled s ON s.event = e.seq WHERE e.handoff = h.id AND s.link = ? AND s.state = ?)
		ORDER BY h.id`+atMost, after.String(), string(home), federation.DeliveryDelivered, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read what %s was told of: %w", home, err)
	}
	return told, nil
}

// MailboxLocation implements [federationtest.Homes].
func (s *Record) MailboxLocation(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	r := federation.MailboxLocation{DID: did}
	var since int64
	err := s.reads.row(ctx, `SELECT home, source, since, origin FROM mailbox_location WHERE did = ?`, []any{did}, &r.Home, &r.Source, &since, &r.From)
	if err != nil {
		return federation.MailboxLocation{}, fmt.Errorf("read mailbox location of %s: %w", did, err)
	}
	r.Since = moment(since)
	return r, nil
}

// KeepMailboxLocation implements [federationtest.Homes].
func (s *Record) KeepMailboxLocation(ctx context.Context, r federation.MailboxLocation) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, `INSERT INTO mailbox_location (did, home, source, since, origin) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (did) DO UPDATE SET home = excluded.home, source = excluded.source, since = excluded.since, origin = excluded.origin`,
			r.DID, string(r.Home), string(r.Source), stamp(r.Since), string(r.From))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep mailbox location of %s: %w", r.DID, err)
	}
	return nil
}
