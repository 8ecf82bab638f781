package inboxes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// Insert files an event in the inbox of a DID, and adds it to the sums in mailbox and share, which
// are the use of the inbox. The DID and the signer are given by number.
func Insert(ctx context.Context, q engine.Tx, to, signer int64, ev federation.Event) error {
	size := len(ev.Signature.Document)
	err := q.Put(ctx, `INSERT INTO mailbox (did, entries, size, number, event) SELECT ?1, 1, ?2, 1, seq FROM event WHERE id = ?4 AND signer = ?3
		ON CONFLICT (did) DO UPDATE SET entries = mailbox.entries + 1, size = mailbox.size + excluded.size, number = mailbox.number + 1, event = excluded.event`,
		to, size, signer, ev.ID.String())
	if err == nil {
		err = q.Put(ctx, `INSERT INTO inbox (did, event, waiting, number) SELECT did, event, ?2, number FROM mailbox WHERE did = ?1`, to, size)
	}
	if err == nil {
		err = q.Put(ctx, `INSERT INTO share (did, sender, entries, size) VALUES (?, ?, 1, ?)
			ON CONFLICT (did, sender) DO UPDATE SET entries = share.entries + 1, size = share.size + excluded.size`, to, signer, size)
	}
	if err != nil {
		return fmt.Errorf("write inbox: %w", err)
	}
	return nil
}

type entry struct {
	did    int64
	event  int64
	waited bool
	size   int64 // of its document, if it is unread
	signer int64
	slow   bool // its signer was notified of the delay
}

const entryColumns = `did, event, waiting IS NOT NULL, coalesce(waiting, 0), coalesce((SELECT e.signer FROM event e WHERE e.seq = inbox.event), 0), slow`

func (e *entry) dest() []any {
	return []any{&e.did, &e.event, &e.waited, &e.size, &e.signer, &e.slow}
}

// Returns the entries in the order of their steps, in which their signers are notified.
func endWaiting(ctx context.Context, q engine.Tx, how federation.DeliveryState, now time.Time, which string, args ...any) ([]entry, error) {
	scan := func(row engine.Scanner) (e entry, err error) { return e, row.Scan(e.dest()...) }
	found, err := engine.Rows(ctx, q, scan, `SELECT `+entryColumns+` FROM inbox WHERE waiting IS NOT NULL AND (`+which+`)`, args...)
	for _, e := range found {
		if err == nil {
			err = q.Put(ctx, `UPDATE inbox SET waiting = NULL, outcome = ?, ended = ? WHERE did = ? AND event = ?`, string(how), engine.Stamp(now), e.did, e.event)
		}
	}
	if err == nil {
		err = subtract(ctx, q, found, how == federation.DeliveryDelivered)
	}
	if err != nil {
		return nil, fmt.Errorf("end waiting in inbox: %w", err)
	}
	slices.SortFunc(found, func(a, b entry) int { return cmp.Or(cmp.Compare(a.event, b.event), cmp.Compare(a.did, b.did)) })
	return found, nil
}

// Delete deletes the entries selected by a condition on inbox, with their deliveries to webhooks.
// It reads the signers from the events, so delete those afterwards.
func Delete(ctx context.Context, q engine.Tx, which string, args ...any) error {
	type pushed struct {
		did   federation.DID
		event int64
	}
	var called []pushed
	scan := func(row engine.Scanner) (e entry, err error) {
		var did federation.DID // "" if no webhook receives the entries
		if err = row.Scan(append(e.dest(), &did)...); did != "" {
			called = append(called, pushed{did, e.event})
		}
		return e, err
	}
	gone, err := engine.Rows(ctx, q, scan, `DELETE FROM inbox WHERE `+which+` RETURNING `+entryColumns+`,
		coalesce((SELECT a.did FROM actor a WHERE a.n = inbox.did AND `+queue.HasInbox(`a.did`)+`), '')`, args...)
	for _, p := range called {
		if err == nil {
			err = queue.DropEntry(ctx, q, p.did, p.event)
		}
	}
	if err == nil {
		err = subtract(ctx, q, gone, false)
	}
	if err != nil {
		return fmt.Errorf("delete from inbox: %w", err)
	}
	return nil
}

// A share exists while an entry of its signer is unread.
func subtract(ctx context.Context, q engine.Tx, entries []entry, read bool) error {
	type share struct{ did, signer int64 }
	type sum struct{ entries, size int64 }
	mailboxes, shares := map[int64]sum{}, map[share]sum{}
	for _, e := range entries {
		if e.waited {
			whole, part := mailboxes[e.did], shares[share{e.did, e.signer}]
			mailboxes[e.did] = sum{whole.entries + 1, whole.size + e.size}
			shares[share{e.did, e.signer}] = sum{part.entries + 1, part.size + e.size}
		}
	}
	for _, did := range slices.Sorted(maps.Keys(mailboxes)) {
		of := mailboxes[did]
		err := q.Put(ctx, `UPDATE mailbox SET entries = entries - ?1, size = size - ?2, reads = max(reads, ?3) WHERE did = ?4`, of.entries, of.size, read, did)
		if err != nil {
			return err
		}
	}
	byNumber := func(a, b share) int { return cmp.Or(cmp.Compare(a.did, b.did), cmp.Compare(a.signer, b.signer)) }
	for _, s := range slices.SortedFunc(maps.Keys(shares), byNumber) {
		of := shares[s]
		err := q.Put(ctx, `UPDATE share SET entries = entries - ?, size = size - ? WHERE did = ? AND sender = ?`, of.entries, of.size, s.did, s.signer)
		if err == nil {
			err = q.Put(ctx, `DELETE FROM share WHERE did = ? AND sender = ? AND entries = 0`, s.did, s.signer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
