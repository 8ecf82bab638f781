package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/deliveries"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/participants"
)

// The erasure of a person, table by table.
//
// A handoff involves a person if one of its steps is signed by, represents, or names one of the
// person's DIDs. In such a handoff and in its private text:
//
//   - event: the row stays with its digests, its DIDs, its verb and its times; body is the event
//     without its content (see [federation.Event.Erase]); document, message and place are cleared
//   - handoff: the row stays; the view loses title, capabilities and priority
//   - evidence, blob, blob_claim, inbox, attempt, mention: the rows are deleted
//   - delivery: the row ends and stays, with numbers and codes but no reason and no dead letter
//   - ruling, fork: stay; rulings of homes have digests, DIDs and numbers, and no text
//
// Of the person, and of these handoffs, the rows of deferred, pending, answer, notice, webhook,
// document, session, declaration, login, login_code, password, marker and line are deleted. The
// tables of a network erase their own rows (see [engine.Tables]), and links erase their journals.
//
// The tables without text of persons stay as they are: actor, tombstone, unseen, newcomer, size,
// sample, mailbox, share, device, looked, destination, letter, peer_delivery_id, peer_mode, binding,
// bound_name, key_owner, key_window, own_key, deferred_count, offence,
// mailbox_location, known_home, audit, operator_token, block, contact, heartbeat.

// Other writes continue between pages.
const (
	eraseHandoffs = 32
	eraseMessages = 200
)

// The DIDs are ?1 and the handoffs are ?2, both JSON arrays.
const (
	ofDIDs       = `IN (SELECT value FROM json_each(?1))`
	ofHandoffs   = `IN (SELECT value FROM json_each(?2))`
	eventOfThem  = `(e.signer ` + actorOfThem + ` OR e.author ` + actorOfThem + ` OR e.recipient ` + actorOfThem + ` OR e.body ->> 'party' ` + ofDIDs + `)`
	unfiledThem  = `(e.signer ` + ofDIDs + ` OR e.body ->> 'for' ` + ofDIDs + ` OR e.body ->> 'to' ` + ofDIDs + ` OR e.body -> 'arrival' ->> 'party' ` + ofDIDs + `)`
	saidOfThem   = `(e.state = 'said' AND (` + eventOfThem + ` OR EXISTS (SELECT 1 FROM mention m WHERE m.event = e.seq AND m.handoff ` + ofHandoffs + `)))`
	eraseOfThem  = `(e.handoff ` + ofHandoffs + ` AND e.state <> 'said' OR ` + saidOfThem + `)`
	handoffsThem = `SELECT e.handoff FROM event e WHERE e.version IS NOT NULL AND ` + eventOfThem + ` UNION SELECT id FROM handoff WHERE offerer ` + actorOfThem + `
		UNION SELECT id FROM handoff WHERE offeree ` + actorOfThem + ` UNION SELECT id FROM handoff WHERE assignee ` + actorOfThem
)

type erasure struct {
	record       *Record
	dids         string // as JSON, like the others
	handoffs     string
	participants string
	all          []federation.HandoffID
	left         []federation.HandoffID
	open         []federation.HandoffID
	now          time.Time
}

// Erasable counts the rows that Erase would erase.
func (s *Record) Erasable(ctx context.Context, of federation.ErasureQuery) (federation.Erasing, error) {
	e, err := s.planErasure(ctx, of, time.Time{})
	var found federation.Erasing
	if err == nil {
		found, err = e.count(ctx)
	}
	if err != nil {
		return federation.Erasing{}, fmt.Errorf("count content to erase: %w", err)
	}
	return found, nil
}

// Erase erases in several transactions. If the person has open handoffs, it returns them and erases
// nothing. Another call resumes an interrupted erasure, and counts the rest.
func (s *Record) Erase(ctx context.Context, of federation.ErasureQuery, now time.Time) (federation.Erasing, error) {
	e, err := s.planErasure(ctx, of, now)
	var done federation.Erasing
	if err == nil {
		done, err = e.count(ctx)
	}
	if err == nil && len(done.Open) == 0 {
		err = e.run(ctx)
		s.ForgetDeclarations()
	}
	if err != nil {
		return federation.Erasing{}, fmt.Errorf("erase: %w", err)
	}
	return done, nil
}

// Compact is [engine.DB.Compact].
func (s *Record) Compact(ctx context.Context) error { return s.db.Compact(ctx) }

func (s *Record) planErasure(ctx context.Context, of federation.ErasureQuery, now time.Time) (*erasure, error) {
	e := &erasure{record: s, now: now}
	var err error
	if e.dids, err = asJSON(of.DIDs); err != nil {
		return nil, err
	}
	if e.participants, err = asJSON(of.Participants); err != nil {
		return nil, err
	}
	type row struct {
		id           federation.HandoffID
		over, erased bool
	}
	scan := func(scanner engine.Scanner) (r row, err error) {
		var text string
		if err = scanner.Scan(&text, &r.over, &r.erased); err == nil {
			err = r.id.UnmarshalText([]byte(text))
		}
		return r, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT h.id, h.over = 1, h.view ->> 'erased' IS NOT NULL FROM handoff h WHERE h.id IN (`+handoffsThem+`) ORDER BY h.id`, e.dids)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		e.all = append(e.all, r.id)
		switch {
		case !r.over:
			e.open = append(e.open, r.id)
		case !r.erased:
			e.left = append(e.left, r.id)
		}
	}
	e.handoffs, err = asJSON(e.all)
	return e, err
}

// The result is never null.
func asJSON[T any](list []T) (string, error) {
	text, err := json.Marshal(append([]T{}, list...))
	return string(text), err
}

func (e *erasure) count(ctx context.Context) (federation.Erasing, error) {
	q := e.record.db.Reads()
	done := federation.Erasing{Open: e.open[:min(len(e.open), federation.MaxOpenNamed)], Handoffs: len(e.left), Copies: []string{}, All: e.all}
	for _, of := range e.targets(&done) {
		var n int
		if err := q.Row(ctx, `SELECT count(*) FROM `+of.table+` WHERE `+of.where, of.args, &n); err != nil {
			return done, err
		}
		*of.count += n
	}
	copies, err := e.copies(ctx, q)
	if err != nil {
		return done, err
	}
	done.Copies = append(done.Copies, copies...)
	if tables := e.record.db.Tables; tables != nil {
		messages, peers, err := tables.Erasable(ctx, q, e.handoffs, e.participants)
		if err != nil {
			return done, err
		}
		done.Messages += messages
		done.Copies = append(done.Copies, peers...)
	}
	slices.Sort(done.Copies)
	done.Copies = slices.Compact(done.Copies)
	return done, nil
}

// Rows without a drop are erased with their event.
type target struct {
	count *int
	table string
	where string
	args  []any
	drop  dropped
}

// The rows are dropped all at once, or each by its key.
type dropped struct {
	all  bool
	key  string
	each func(ctx context.Context, q engine.Tx, key string) error
}

func (e *erasure) copies(ctx context.Context, q engine.Tx) ([]string, error) {
	links, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT DISTINCT d.name FROM event e JOIN delivery f ON f.item = e.seq JOIN destination d ON d.n = f.destination
		WHERE f.state = 'delivered' AND d.kind = 'link' AND `+eraseOfThem, e.dids, e.handoffs)
	if err != nil {
		return nil, err
	}
	homes, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT DISTINCT h.view ->> 'home' FROM handoff h
		WHERE h.id IN (SELECT value FROM json_each(?1)) AND h.view ->> 'remote' IS NOT NULL`, e.handoffs)
	return append(links, homes...), err
}

// A repeated run resumes an interrupted one.
func (e *erasure) run(ctx context.Context) error {
	for page := range slices.Chunk(e.left, eraseHandoffs) {
		err := e.record.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			for _, id := range page {
				if err := e.eraseHandoff(ctx, q, id); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for more := true; more; {
		erased, err := engine.Written(ctx, e.record.db, e.eraseMessages)
		if err != nil {
			return err
		}
		more = erased > 0
	}
	return e.record.db.Write(ctx, e.eraseRest)
}

func (e *erasure) eraseHandoff(ctx context.Context, q engine.Tx, id federation.HandoffID) error {
	view, err := over(ctx, q, id.String())
	if errors.Is(err, federation.ErrNotFound) {
		return nil // pruned meanwhile
	}
	if err != nil {
		return err
	}
	steps, err := engine.Rows(ctx, q, scanStored, `SELECT e.seq, e.handoff, `+handoffs.EventColumns+` FROM event e WHERE e.handoff = ? AND e.state <> 'said'`, id.String())
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := e.eraseEvent(ctx, q, step); err != nil {
			return err
		}
	}
	if err := deleteEntries(ctx, q, id.String(), view); err != nil {
		return err
	}
	if err := q.Put(ctx, `DELETE FROM evidence WHERE handoff = ?`, id.String()); err != nil {
		return err
	}
	text, err := json.Marshal(view.Erase(e.now))
	if err == nil {
		err = q.Put(ctx, `UPDATE handoff SET view = ? WHERE id = ?`, string(text), id.String())
	}
	return err
}

type stored struct {
	seq     int64
	handoff string
	event   handoffs.EventScan
}

func scanStored(row engine.Scanner) (s stored, err error) {
	err = row.Scan(append([]any{&s.seq, &s.handoff}, s.event.Dest()...)...)
	return s, err
}

func (e *erasure) eraseEvent(ctx context.Context, q engine.Tx, s stored) error {
	ev, err := s.event.Read()
	if err != nil {
		return fmt.Errorf("event %d cannot be read, see baton verify: %w", s.seq, err)
	}
	columns, err := s.event.Erased(ev.Erase(e.now))
	if err != nil {
		return err
	}
	if err := q.Put(ctx, `UPDATE event SET document = NULL, body = ?, message = NULL, place = NULL WHERE seq = ?`, string(columns.Body), s.seq); err != nil {
		return err
	}
	return e.endDeliveries(ctx, q, s)
}

func (e *erasure) eraseMessages(ctx context.Context, q engine.Tx) (int, error) {
	found, err := engine.Rows(ctx, q, scanStored, `SELECT e.seq, e.handoff, `+handoffs.EventColumns+` FROM event e WHERE e.body ->> 'erased' IS NULL AND `+saidOfThem+`
		ORDER BY e.seq LIMIT 0 + ?3`, e.dids, e.handoffs, eraseMessages)
	if err != nil {
		return 0, err
	}
	for _, m := range found {
		ev, err := m.event.Read()
		if err != nil {
			return 0, fmt.Errorf("message %d cannot be read, see baton verify: %w", m.seq, err)
		}
		if err := e.eraseEvent(ctx, q, m); err != nil {
			return 0, err
		}
		if ev.Evidence != nil {
			if err := q.Put(ctx, `DELETE FROM evidence WHERE digest = ? AND handoff = ?`, ev.Evidence.Digest[:], m.handoff); err != nil {
				return 0, err
			}
		}
		if err := inboxes.Delete(ctx, q, `did = (SELECT n FROM actor WHERE did = ?) AND event = ?`, ev.To, m.seq); err != nil {
			return 0, err
		}
		if err := q.Put(ctx, `DELETE FROM mention WHERE event = ?`, m.seq); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

func (e *erasure) eraseRest(ctx context.Context, q engine.Tx) error {
	for _, of := range e.targets(&federation.Erasing{}) {
		if err := of.erase(ctx, q); err != nil {
			return err
		}
	}
	if e.record.db.Tables == nil {
		return nil
	}
	return e.record.db.Tables.Erase(ctx, q, e.handoffs, e.participants, e.now)
}

func (t target) erase(ctx context.Context, q engine.Tx) error {
	if t.drop.all {
		name, alias, _ := strings.Cut(t.table, " ")
		return q.Put(ctx, `DELETE FROM `+name+` AS `+alias+` WHERE `+t.where, t.args...)
	}
	if t.drop.each == nil {
		return nil
	}
	keys, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT CAST(`+t.drop.key+` AS text) FROM `+t.table+` WHERE `+t.where, t.args...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := t.drop.each(ctx, q, key); err != nil {
			return err
		}
	}
	return nil
}

func (e *erasure) targets(done *federation.Erasing) []target {
	return append(e.eventTargets(done), e.otherTargets(done)...)
}

func (e *erasure) eventTargets(done *federation.Erasing) []target {
	both, steps := []any{e.dids, e.handoffs}, []any{e.handoffs}
	const those = `IN (SELECT value FROM json_each(?1))`
	return []target{
		{count: &done.Documents, table: `event e`, where: `e.handoff ` + those + ` AND e.state <> 'said' AND e.body ->> 'erased' IS NULL`, args: steps},
		{count: &done.Messages, table: `event e`, where: `e.body ->> 'erased' IS NULL AND ` + saidOfThem, args: both},
		{count: &done.Waiting, table: `delivery f JOIN destination d ON d.n = f.destination JOIN event e ON e.seq = f.item`, where: `f.state = 'waiting' AND d.kind = 'link' AND ` + eraseOfThem, args: both},
		{count: &done.Waiting, table: `inbox i JOIN event e ON e.seq = i.event`, where: `i.waiting IS NOT NULL AND (` + eraseOfThem + `)`, args: both},
		{count: &done.Waiting, table: `delivery f JOIN event e ON e.seq = f.item`, where: `f.letter IS NOT NULL AND ` + eraseOfThem, args: both},
		{count: &done.Evidence, table: `evidence v`, where: `v.handoff ` + those, args: steps, drop: dropped{all: true}},
	}
}

func (e *erasure) otherTargets(done *federation.Erasing) []target {
	both, all := []any{e.dids, e.handoffs}, dropped{all: true}
	const unfiledOrHandoff = `(` + unfiledThem + ` OR e.handoff ` + ofHandoffs + `)`
	return []target{
		{
			&done.Contexts, `blob b`, `b.owner ` + ofDIDs + ` OR EXISTS (SELECT 1 FROM blob_claim c WHERE c.capability = b.capability AND c.handoff ` + ofHandoffs + `)`,
			both,
			dropped{key: `b.capability`, each: dropBlob},
		},
		{&done.Waiting, `deferred e`, unfiledOrHandoff, both, dropped{key: `e.n`, each: byRow(e.record.DropDeferral)}},
		{&done.Waiting, `pending e`, unfiledOrHandoff, both, all},
		{
			&done.Waiting, `document r`, `r.sender ` + ofDIDs + ` OR r.handoff ` + ofHandoffs,
			[]any{e.participants, e.handoffs},
			dropped{key: `r.n`, each: byRow(deliveries.EndPeerDelivery)},
		},
		{&done.Other, `answer a`, `a.did ` + ofDIDs + ` OR EXISTS (SELECT 1 FROM event e WHERE e.id = a.event AND (` + eraseOfThem + `))`, both, all},
		{
			&done.Other, `notice n`, `n.signer ` + ofDIDs + ` OR n.reader ` + ofDIDs + ` OR n.body -> 'event' ->> 'handoff' ` + ofHandoffs + `
				OR EXISTS (SELECT 1 FROM event e WHERE e.id = n.event AND ` + saidOfThem + `)`, both,
			dropped{key: `n.n`, each: byRow(inboxes.DropNotice)},
		},
		{&done.Other, `webhook w`, `w.did ` + ofDIDs + ` OR w.handoff ` + ofHandoffs, both, dropped{key: `w.id`, each: dropWebhook}},
		{
			&done.Other, `session s`, `s.participant ` + ofDIDs + ` OR s.participant ` + ofHandoffs,
			[]any{e.dids, e.participants},
			dropped{key: `s.id`, each: participants.DropSession},
		},
		{&done.Other, `declaration d`, `d.did ` + ofDIDs, []any{e.dids}, all},
		{&done.Other, `login_code c`, `c.did ` + ofDIDs, []any{e.dids}, all},
		{&done.Other, `login l`, `l.did ` + ofDIDs, []any{e.dids}, all},
		{&done.Other, `password p`, `p.did ` + ofDIDs, []any{e.dids}, all},
		{&done.Other, `marker r`, `r.did ` + ofDIDs + ` OR r.target ` + ofDIDs, []any{e.dids}, all},
		{&done.Messages, `line l`, `l.author ` + ofDIDs + ` OR l.recipient ` + ofDIDs, []any{e.dids}, all},
	}
}

// dropBlob deletes a blob, even if other handoffs refer to it.
func dropBlob(ctx context.Context, q engine.Tx, capability string) error {
	for _, change := range []string{`DELETE FROM blob_claim WHERE capability = ?`, `DELETE FROM blob WHERE capability = ?`} {
		if err := q.Put(ctx, change, capability); err != nil {
			return err
		}
	}
	return nil
}

func dropWebhook(ctx context.Context, q engine.Tx, key string) error {
	id, err := federation.ParseEventID(key)
	if err != nil {
		return err
	}
	return deliveries.DropWebhook(ctx, q, id)
}

func byRow(drop func(context.Context, engine.Tx, int64) error) func(context.Context, engine.Tx, string) error {
	return func(ctx context.Context, q engine.Tx, key string) error {
		row, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return err
		}
		return drop(ctx, q, row)
	}
}

// Signers are not notified.
func (e *erasure) endDeliveries(ctx context.Context, q engine.Tx, s stored) error {
	gone := federation.Settlement{State: federation.DeliveryDead, Code: string(federation.DeadOperator), Quiet: true, At: e.now}
	links, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT f.destination FROM delivery f JOIN destination d ON d.n = f.destination WHERE f.item = ? AND f.state = 'waiting' AND d.kind = 'link'`, s.seq)
	if err != nil {
		return err
	}
	for _, link := range links {
		if err := deliveries.End(ctx, q, link, s.seq, gone); err != nil {
			return err
		}
	}
	if err := q.Put(ctx, `UPDATE delivery SET reason = '', unsure = '' WHERE item = ?`, s.seq); err != nil {
		return err
	}
	letters, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT letter FROM delivery WHERE item = ? AND letter IS NOT NULL`, s.seq)
	if err != nil {
		return err
	}
	for _, n := range letters {
		if err := deliveries.ForgetDead(ctx, q, n); err != nil {
			return err
		}
	}
	return nil
}
