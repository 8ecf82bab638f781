package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// FileText files a text in one transaction with its inbox entry, pending deliveries and effects. It
// returns the filed text, and whether it was already filed. A repeated text changes nothing.
func (s *Record) FileText(ctx context.Context, f federation.TextFiling) (filed federation.Text, known bool, err error) {
	ready := filing{record: s, Filing: federation.Filing{
		Fanout: f.Fanout, Event: f.Text.Row(), View: federation.View{ID: f.Text.Order, State: handoffs.TextState},
		Inboxes: f.Inboxes, Filed: f.Filed, Newcomer: f.Newcomer,
	}}
	ready.keys = s.newKeys(ready.Filing)
	if ready.step, err = handoffs.Prepare(ready.Event); err != nil {
		return federation.Text{}, false, fmt.Errorf("file text %s: %w", f.Text.ID, err)
	}
	if ready.actors, err = s.actorsOf(ctx, ready.Filing); err != nil {
		return federation.Text{}, false, fmt.Errorf("file text %s: %w", f.Text.ID, err)
	}
	if ready.links, err = s.linksOf(ctx, ready.Filing); err != nil {
		return federation.Text{}, false, fmt.Errorf("file text %s: %w", f.Text.ID, err)
	}
	var entry federation.Entry
	err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		ready := ready
		var err error
		if ready.actors, err = ready.intern(ctx, q); err != nil {
			return err
		}
		entry, err = handoffs.FindStep(ctx, q, ready.actors[f.Text.From], f.Text.ID, ready.step.Digest)
		if known = err == nil; known || !errors.Is(err, federation.ErrNotFound) {
			return err
		}
		entry = ready.entry()
		return ready.fileText(ctx, q, f)
	})
	if err != nil {
		return federation.Text{}, false, fmt.Errorf("file text %s: %w", f.Text.ID, err)
	}
	if !known {
		s.keyRows.Add(ready.keys...)
	}
	return *federation.TextOf(entry.Row()), known, nil
}

func (f filing) fileText(ctx context.Context, q engine.Tx, of federation.TextFiling) error {
	if err := f.insert(ctx, q, f.Event, f.step, place{}); err != nil {
		return fmt.Errorf("insert text: %w", err)
	}
	if err := f.fileArrivals(ctx, q, federation.RankMessage); err != nil {
		return err
	}
	if len(f.Inboxes) > 0 {
		dids, err := asJSON(f.Inboxes)
		var called bool
		if err == nil {
			err = q.Row(ctx, `SELECT `+queue.HasInboxes(`?1`), []any{dids}, &called)
		}
		if err == nil && called {
			err = f.push(ctx, q)
		}
		if err != nil {
			return fmt.Errorf("queue for webhooks: %w", err)
		}
	}
	if t := of.Text; !t.About.IsZero() {
		err := q.Put(ctx, `INSERT INTO mention (handoff, event) SELECT ?1, e.seq FROM event e WHERE e.id = ?2 AND e.signer = ?3`,
			t.About.String(), t.ID.String(), f.actors[t.From])
		if err != nil {
			return fmt.Errorf("note mention: %w", err)
		}
	}
	if of.Contact.State != "" {
		if err := introduce(ctx, q, of.Contact, f.Filed); err != nil {
			return err
		}
	}
	for _, effect := range f.Effects {
		if f.record.db.Tables == nil {
			return fmt.Errorf("no table stores a %T", effect)
		}
		if err := f.record.db.Tables.Apply(ctx, q, effect); err != nil {
			return err
		}
	}
	return f.remember(ctx, q)
}

// TextAbout returns up to limit texts that refer to a handoff, oldest first.
func (s *Record) TextAbout(ctx context.Context, id federation.HandoffID, limit int) ([]federation.Text, error) {
	scan := func(row engine.Scanner) (federation.Text, error) {
		var e handoffs.EntryScan
		if err := row.Scan(e.Dest()...); err != nil {
			return federation.Text{}, err
		}
		entry, err := e.Read()
		return *federation.TextOf(entry.Row()), err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+handoffs.EntryColumns+` FROM mention m JOIN event e ON e.seq = m.event
		WHERE m.handoff = ? ORDER BY m.event`+engine.AtMost, id.String(), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read text about %s: %w", id, err)
	}
	return found, nil
}

// ExpireMessages expires up to limit pending messages filed at or before a given time, on links and
// in inboxes. It notifies their senders, and returns the number of expired messages.
func (s *Record) ExpireMessages(ctx context.Context, before, now time.Time, limit int) (int, error) {
	expired, err := s.Outboxes.ExpireMessages(ctx, before, now, limit)
	if err != nil || expired == limit {
		return expired, err
	}
	lapsed, err := s.ExpireUnreadMessages(ctx, before, now, limit-expired)
	return expired + lapsed, err
}

// The newest event of the record stays, because later events continue its numbering.
const prunable = `SELECT e.seq, ` + handoffs.EventColumns + ` FROM event e WHERE e.state = 'said' AND e.filed <= ?
	AND e.seq < (SELECT max(seq) FROM event)
	AND NOT EXISTS (SELECT 1 FROM delivery f JOIN destination d ON d.n = f.destination WHERE f.item = e.seq AND (f.letter IS NOT NULL OR f.state = 'waiting' AND d.kind = 'link'))
	AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.event = e.seq AND i.did = e.recipient AND i.waiting IS NOT NULL)`

const idleChat = ` AND e.recipient IS NULL AND NOT EXISTS (SELECT 1 FROM mention m WHERE m.event = e.seq)`

// PruneConversations deletes up to limit messages filed at or before a given time and no longer
// pending. It returns their number.
func (s *Record) PruneConversations(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.pruneMessages(ctx, prunable, before, limit)
}

// PruneChat deletes up to limit channel lines filed at or before a given time, and returns their
// number. It keeps pending lines, and lines that refer to a handoff.
func (s *Record) PruneChat(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.pruneMessages(ctx, prunable+idleChat, before, limit)
}

func (s *Record) pruneMessages(ctx context.Context, which string, before time.Time, limit int) (int, error) {
	type old struct {
		seq   int64
		event handoffs.EventScan
	}
	scan := func(row engine.Scanner) (o old, err error) {
		err = row.Scan(append([]any{&o.seq}, o.event.Dest()...)...)
		return o, err
	}
	pruned, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		found, err := engine.Rows(ctx, q, scan, which+` ORDER BY e.filed, e.seq`+engine.AtMost, engine.Stamp(before), max(limit, 0))
		for _, o := range found {
			if err == nil {
				err = forgetMessage(ctx, q, o.seq, o.event)
			}
		}
		return len(found), err
	})
	if err != nil {
		return 0, fmt.Errorf("prune messages: %w", err)
	}
	return pruned, nil
}

func forgetMessage(ctx context.Context, q engine.Tx, seq int64, message handoffs.EventScan) error {
	ev, err := message.Read()
	if err != nil {
		return nil //nolint:nilerr // one bad row stops no other; baton verify reports it
	}
	if ev.Evidence != nil {
		if err := q.Put(ctx, `DELETE FROM evidence WHERE digest = ? AND handoff = ?`, ev.Evidence.Digest[:], ev.Handoff.String()); err != nil {
			return err
		}
	}
	if ev.To != "" {
		if err := inboxes.Delete(ctx, q, `did = (SELECT n FROM actor WHERE did = ?) AND event = ?`, ev.To, seq); err != nil {
			return err
		}
	}
	for _, change := range []string{
		`DELETE FROM mention WHERE event = ?`,
		`DELETE FROM attempt WHERE item = ?`,
		`DELETE FROM delivery WHERE item = ?`,
		`DELETE FROM event WHERE seq = ?`,
	} {
		if err := q.Put(ctx, change, seq); err != nil {
			return err
		}
	}
	return nil
}

// WithMessageID returns the step or message with this ID here or on its network, or
// [federation.ErrNotFound]. It ignores the part of messageID after a dot, which distinguishes the
// lines of one message.
func (s *Record) WithMessageID(ctx context.Context, messageID string) (federation.Entry, error) {
	own, _, _ := strings.Cut(messageID, ".")
	if id, err := federation.ParseEventID(own); err == nil {
		own = id.String()
	}
	var e handoffs.EntryScan
	err := s.db.Reads().Row(ctx, `SELECT `+handoffs.EntryColumns+` FROM (SELECT 0 AS given, * FROM event WHERE id = ?1 UNION ALL SELECT 1, * FROM event WHERE message = ?2) AS e
		ORDER BY given, seq LIMIT 1`, []any{own, messageID}, e.Dest()...)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("read message %s: %w", messageID, err)
	}
	return e.Read()
}
