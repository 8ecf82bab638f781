package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/deliveries"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

const finished = `h.over = 1`

// Prune examines up to limit handoffs unchanged since a given time, and deletes closed ones with
// all their data. It keeps a handoff with a pending delivery to a link or with a dead letter, and
// the handoff with the newest event, which continues the numbering. Tombstones remain: a repeated
// step is refused with [federation.TerminalHandoff], and other bytes with its ID with
// [federation.EventIDInUse].
func (s *Record) Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error) {
	idle, next, err := s.Idle(ctx, before, after, limit)
	if err == nil && len(idle) > 0 {
		pruned, err = s.pruneAll(ctx, idle, now)
	}
	if err != nil {
		return 0, "", fmt.Errorf("prune: %w", err)
	}
	return pruned, next, nil
}

func (s *Record) pruneAll(ctx context.Context, idle []federation.HandoffID, now time.Time) (int, error) {
	return engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (pruned int, err error) {
		for _, id := range idle {
			gone, err := s.prune(ctx, q, id.String(), now)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", id, err)
			}
			if gone {
				pruned++
			}
		}
		return pruned, nil
	})
}

func (s *Record) prune(ctx context.Context, q engine.Tx, id string, now time.Time) (gone bool, err error) {
	view, err := over(ctx, q, id)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if needed, err := needed(ctx, q, id); err != nil || needed {
		return false, err
	}
	if err := handoffs.BuryIDs(ctx, q, id, now); err != nil {
		return false, err
	}
	return true, s.remove(ctx, q, id, view)
}

// needed reports whether a step of a handoff has a pending delivery to a link or a dead letter,
// or has the newest number of the record.
func needed(ctx context.Context, q engine.Tx, id string) (needed bool, err error) {
	err = q.Row(ctx, `SELECT (SELECT handoff FROM event WHERE seq = (SELECT max(seq) FROM event)) = ?1
		OR EXISTS (SELECT 1 FROM event e JOIN delivery f ON f.item = e.seq JOIN destination d ON d.n = f.destination
			WHERE e.handoff = ?1 AND (f.letter IS NOT NULL OR f.state = 'waiting' AND d.kind = 'link'))`, []any{id}, &needed)
	return needed, err
}

// Only inboxes of its parties contain its steps.
func (s *Record) remove(ctx context.Context, q engine.Tx, id string, view federation.View) error {
	if err := deleteEntries(ctx, q, id, view); err != nil {
		return err
	}
	if err := deliveries.DropFollowers(ctx, q, id); err != nil {
		return err
	}
	if err := handoffs.UnclaimBlobs(ctx, q, id); err != nil {
		return err
	}
	if s.db.Tables != nil {
		if err := s.db.Tables.Forget(ctx, q, id); err != nil {
			return err
		}
	}
	for _, change := range []string{
		`DELETE FROM evidence WHERE handoff = ?`,
		`DELETE FROM ruling WHERE handoff = ?`,
		`DELETE FROM attempt WHERE item IN (SELECT seq FROM event WHERE handoff = ?)`,
		`DELETE FROM delivery WHERE item IN (SELECT seq FROM event WHERE handoff = ?)`,
		`DELETE FROM event WHERE handoff = ?`,
		`DELETE FROM handoff WHERE id = ?`,
	} {
		if err := q.Put(ctx, change, id); err != nil {
			return err
		}
	}
	return nil
}

func deleteEntries(ctx context.Context, q engine.Tx, id string, view federation.View) error {
	dids, err := asJSON(view.Others(""))
	if err != nil {
		return err
	}
	return inboxes.Delete(ctx, q, `did `+actorOfThem+` AND event IN (SELECT seq FROM event WHERE handoff = ?2)`, dids, id)
}

func over(ctx context.Context, q engine.Tx, id string) (federation.View, error) {
	var text []byte
	if err := q.Row(ctx, `SELECT h.view FROM handoff h WHERE h.id = ? AND `+finished, []any{id}, &text); err != nil {
		return federation.View{}, err
	}
	return handoffs.DecodeView(text)
}

// StepOfThem is the condition that the event e belongs to one of the DIDs in ?1, a JSON array: they
// are its signers or the DIDs that it represents. For a row outside any log, which has DIDs instead
// of numbers, the condition is unfiledOfThem.
const (
	StepOfThem    = `(e.signer ` + actorOfThem + ` OR e.author ` + actorOfThem + `)`
	actorOfThem   = `IN (SELECT a.n FROM json_each(?1) j JOIN actor a ON a.did = j.value)`
	unfiledOfThem = `(e.signer IN (SELECT value FROM json_each(?1)) OR e.body ->> 'for' IN (SELECT value FROM json_each(?1)))`
)

// The condition is that a participant is in ?1, a JSON array.
const (
	participantOfThem = `IN (SELECT value FROM json_each(?1))`
	waitingEntries    = `inbox i JOIN event e ON e.seq = i.event WHERE i.waiting IS NOT NULL AND i.event > 0`
	outboxSteps       = `destination d JOIN delivery f ON f.destination = d.n JOIN event e ON e.seq = f.item WHERE d.kind = 'link' AND f.state = 'waiting'`
	deferredSteps     = `deferred e WHERE e.n > 0`
	pendingSteps      = `pending e WHERE e.seq > 0`
	deadSteps         = `delivery f JOIN event e ON e.seq = f.item WHERE f.letter > 0 AND f.state || '' = 'dead'`
)

// Senders returns up to limit DIDs after a DID, in order, with an open offered handoff or a pending
// row.
func (s *Record) Senders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error) {
	const known = `SELECT did FROM actor WHERE did > ?1 AND n IN `
	parts := []string{known + `(SELECT offerer FROM handoff WHERE over = 0 AND offerer > 0)`}
	for _, from := range []string{waitingEntries, outboxSteps, deadSteps} {
		parts = append(parts, known+`(SELECT e.signer FROM `+from+` UNION ALL SELECT e.author FROM `+from+`)`)
	}
	for _, from := range []string{deferredSteps, pendingSteps} {
		parts = append(parts, `SELECT e.signer FROM `+from+` AND e.signer > ?1`, `SELECT e.body ->> 'for' FROM `+from+` AND e.body ->> 'for' > ?1`)
	}
	found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[federation.DID], `SELECT did FROM (`+strings.Join(parts, ` UNION `)+`) senders ORDER BY did LIMIT 0 + ?2`, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read senders: %w", err)
	}
	return found, nil
}

// Purge deletes the pending rows of DIDs and of names on links in one transaction, or only counts
// them if dry. Logs keep their steps.
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

type purge struct {
	record             *Record
	dids, participants string
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

// A set is one kind of pending rows, selected by DID or by participant. A row has up to two keys.
type set struct {
	count *int
	of    []any
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
		{&done.Inbox, dids, `SELECT i.event, CAST(i.did AS text) FROM ` + waitingEntries + ` AND ` + StepOfThem, func(ctx context.Context, q engine.Tx, row int64, did string) error {
			return inboxes.Delete(ctx, q, `did = CAST(? AS bigint) AND event = ?`, did, row)
		}},
		{&done.Outbox, dids, `SELECT f.item, CAST(f.destination AS text) FROM ` + outboxSteps + ` AND ` + StepOfThem, func(ctx context.Context, q engine.Tx, row int64, to string) error {
			link, err := strconv.ParseInt(to, 10, 64)
			if err != nil {
				return err
			}
			return deliveries.End(ctx, q, link, row, gone)
		}},
		{&done.Outbox, participants, `SELECT r.n, '' FROM document r JOIN delivery f ON f.item = r.n + ` + queue.DocumentBase + ` WHERE r.n > 0 AND f.state = 'waiting' AND r.sender ` + participantOfThem, func(ctx context.Context, q engine.Tx, row int64, _ string) error {
			return deliveries.EndPeerDelivery(ctx, q, row)
		}},
		{&done.Dead, dids, `SELECT f.letter, '' FROM ` + deadSteps + ` AND ` + StepOfThem, dropDead},
		{&done.Dead, participants, `SELECT f.letter, '' FROM delivery f JOIN document r ON r.n = f.item - ` + queue.DocumentBase + ` WHERE f.letter > 0 AND f.state || '' = 'dead' AND r.sender ` + participantOfThem, dropDead},
		{&done.Deferred, dids, `SELECT e.n, '' FROM ` + deferredSteps + ` AND ` + unfiledOfThem, func(ctx context.Context, q engine.Tx, row int64, _ string) error {
			return p.record.DropDeferral(ctx, q, row)
		}},
		{&done.Deferred, dids, `SELECT e.seq, '' FROM ` + pendingSteps + ` AND ` + unfiledOfThem, func(ctx context.Context, q engine.Tx, row int64, _ string) error {
			return q.Put(ctx, `DELETE FROM pending WHERE seq = ?`, row)
		}},
	}
}

func dropDead(ctx context.Context, q engine.Tx, row int64, _ string) error {
	return deliveries.ForgetDead(ctx, q, row)
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
