package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/outboxes"
)

// StepOfThem is a condition on the event e of a purge: it is of one of the DIDs ?1, a JSON
// array. A step is that of its signer and of the DID that it stands for.
const StepOfThem = `(e.signer IN (SELECT value FROM json_each(?1)) OR e.body ->> 'for' IN (SELECT value FROM json_each(?1)))`

// The rows that a purge searches, and the condition that a participant is in ?1, as JSON.
const (
	participantOfThem = `IN (SELECT value FROM json_each(?1))`
	waitingEntries    = `inbox i JOIN event e ON e.seq = i.event WHERE i.waiting IS NOT NULL AND i.event > 0`
	outboxSteps       = `outbox f JOIN event e ON e.seq = f.event WHERE f.link > ''`
	deferredSteps     = `deferred e WHERE e.n > 0`
	pendingSteps      = `pending e WHERE e.seq > 0`
	deadSteps         = `dead d JOIN event e ON e.seq = d.event WHERE d.n > 0 AND d.replayed = 0`
)

// Senders returns up to limit DIDs after one, in order, that offered an open handoff or
// have a pending row.
func (s *Record) Senders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error) {
	parts := []string{`SELECT offerer AS did FROM handoff WHERE over = 0 AND offerer > ?1`}
	for _, from := range []string{waitingEntries, outboxSteps, deferredSteps, pendingSteps, deadSteps} {
		parts = append(parts, `SELECT e.signer FROM `+from+` AND e.signer > ?1`, `SELECT e.body ->> 'for' FROM `+from+` AND e.body ->> 'for' > ?1`)
	}
	found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[federation.DID], `SELECT did FROM (`+strings.Join(parts, ` UNION `)+`) senders ORDER BY did LIMIT 0 + ?2`, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read senders: %w", err)
	}
	return found, nil
}

// Purge drops the pending rows of DIDs and of names on links in one transaction, or only counts them
// if dry. Logs keep their steps.
func (s *Record) Purge(ctx context.Context, dids []federation.DID, participants []string, now time.Time, dry bool) (federation.Purged, error) {
	p, err := s.newPurge(dids, participants, now, dry)
	if err != nil {
		return federation.Purged{}, fmt.Errorf("purge: %w", err)
	}
	purged, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (federation.Purged, error) {
		done, err := p.all(ctx, q)
		if err != nil || s.db.Tables == nil {
			return done, err
		}
		done.Messages, err = s.db.Tables.Purge(ctx, q, p.dids, p.participants, dry)
		return done, err
	})
	if err != nil {
		return federation.Purged{}, fmt.Errorf("purge: %w", err)
	}
	return purged, nil
}

// purge is one purge under way.
type purge struct {
	record             *Record
	dids, participants string // as JSON
	now                time.Time
	dry                bool
}

func (s *Record) newPurge(dids []federation.DID, participants []string, now time.Time, dry bool) (purge, error) {
	didText, err := json.Marshal(append([]federation.DID{}, dids...))
	if err != nil {
		return purge{}, err
	}
	participantText, err := json.Marshal(append([]string{}, participants...))
	return purge{s, string(didText), string(participantText), now, dry}, err
}

// set is one kind of waiting rows: whether it is found by DID or by participant, the query
// for its rows, each with up to two keys, and how one is dropped.
type set struct {
	count *int
	of    []any // DIDs or participants, as JSON
	query string
	drop  func(ctx context.Context, q engine.Tx, row int64, name string) error
}

func (p purge) all(ctx context.Context, q engine.Tx) (done federation.Purged, err error) {
	for _, each := range p.sets(&done) {
		n, err := p.dropEach(ctx, q, each)
		if err != nil {
			return federation.Purged{}, err
		}
		*each.count += n
	}
	return done, nil
}

func (p purge) sets(done *federation.Purged) []set {
	gone := federation.Settlement{State: federation.DeliveryDead, Code: string(federation.DeadOperator), Why: "an operator blocked the sender", Quiet: true, At: p.now}
	dids, participants := []any{p.dids}, []any{p.participants}
	return []set{
		{&done.Inbox, dids, `SELECT i.event, i.did FROM ` + waitingEntries + ` AND ` + StepOfThem, func(ctx context.Context, q engine.Tx, row int64, did string) error {
			return q.Put(ctx, `DELETE FROM inbox WHERE did = ? AND event = ?`, did, row)
		}},
		{&done.Outbox, dids, `SELECT f.event, f.link FROM ` + outboxSteps + ` AND ` + StepOfThem, func(ctx context.Context, q engine.Tx, row int64, link string) error {
			return outboxes.End(ctx, q, link, row, gone)
		}},
		{&done.Outbox, participants, `SELECT r.n, '' FROM peer_delivery r WHERE r.dead IS NULL AND r.peer > '' AND r.sender ` + participantOfThem, func(ctx context.Context, q engine.Tx, row int64, _ string) error {
			return outboxes.EndPeerDelivery(ctx, q, row)
		}},
		{&done.Dead, dids, `SELECT d.n, '' FROM ` + deadSteps + ` AND ` + StepOfThem, dropDead},
		{&done.Dead, participants, `SELECT d.n, '' FROM dead d JOIN peer_delivery r ON r.n = d.peer_delivery WHERE d.n > 0 AND d.replayed = 0 AND r.sender ` + participantOfThem, dropDead},
		{&done.Deferred, dids, `SELECT e.n, '' FROM ` + deferredSteps + ` AND ` + StepOfThem, func(ctx context.Context, q engine.Tx, row int64, _ string) error {
			return p.record.DropDeferral(ctx, q, row)
		}},
		{&done.Deferred, dids, `SELECT e.seq, '' FROM ` + pendingSteps + ` AND ` + StepOfThem, func(ctx context.Context, q engine.Tx, row int64, _ string) error {
			return q.Put(ctx, `DELETE FROM pending WHERE seq = ?`, row)
		}},
	}
}

func dropDead(ctx context.Context, q engine.Tx, row int64, _ string) error {
	return outboxes.ForgetDead(ctx, q, row)
}

func (p purge) dropEach(ctx context.Context, q engine.Tx, s set) (int, error) {
	type key struct {
		row  int64
		name string
	}
	scan := func(row engine.Scanner) (k key, err error) { err = row.Scan(&k.row, &k.name); return k, err }
	found, err := engine.Rows(ctx, q, scan, s.query, s.of...)
	if err != nil || p.dry {
		return len(found), err
	}
	for _, k := range found {
		if err := s.drop(ctx, q, k.row, k.name); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}
