package deliveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

const waitingPage = 128

type waitingRow struct {
	federation.Waiting
	to, row int64
}

// An unreadable part is reported only if nothing else went wrong: one bad row must not fail the
// others.
func scanWaiting(kind federation.DestinationKind) func(engine.Scanner) (waitingRow, error) {
	return func(row engine.Scanner) (w waitingRow, err error) {
		var event, handoff string
		var queued, next int64
		var e handoffs.EventScan
		dest := append([]any{&w.row, &event, &w.Message, &handoff}, e.Dest()...)
		if err := row.Scan(append(dest, &queued, &w.Attempt, &next, &w.Behind, &w.Reason)...); err != nil {
			return w, err
		}
		w.Queued, w.Next, w.Verb = engine.Moment(queued), engine.Moment(next), verbOf(e)
		notHandoff := w.Handoff.UnmarshalText([]byte(handoff))
		if kind == federation.ToWebhook || kind == federation.ToReaders {
			notHandoff = nil // the lane may be of a sender
		}
		err = errors.Join(w.Event.UnmarshalText([]byte(event)), notHandoff)
		if err != nil && w.Reason == "" {
			w.Reason = "the row cannot be read: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		return w, nil
	}
}

func verbOf(e handoffs.EventScan) federation.Verb {
	ev, _ := e.Read() // reported by baton verify
	return ev.Verb
}

type waitPlace struct {
	peers       bool
	name        string // of the link or peer; "" for the first
	queued, row int64
}

func (p waitPlace) cursor() federation.Cursor {
	kind := "f"
	if p.peers {
		kind = "r"
	}
	return federation.Cursor(kind + strconv.FormatInt(p.queued, 10) + "." + strconv.FormatInt(p.row, 10) + " " + p.name)
}

func parseWaitPlace(c federation.Cursor) (p waitPlace, err error) {
	if c == "" {
		return p, nil
	}
	first, name, ok := strings.Cut(string(c), " ")
	if !ok || len(first) < 2 || first[0] != 'f' && first[0] != 'r' {
		return p, federation.ErrUnknownCursor
	}
	queued, row, _ := strings.Cut(first[1:], ".")
	p = waitPlace{peers: first[0] == 'r', name: name}
	var badRow error
	p.queued, err = strconv.ParseInt(queued, 10, 64)
	if p.row, badRow = strconv.ParseInt(row, 10, 64); err != nil || badRow != nil {
		return p, federation.ErrUnknownCursor
	}
	return p, nil
}

// Rows to peers are last. The result includes the places of the rows.
func (s *Outboxes) waiting(ctx context.Context, f federation.WaitingFilter, at waitPlace, limit int) (found []waitingRow, places []waitPlace, err error) {
	for _, peers := range []bool{false, true} {
		if at.peers && !peers {
			continue
		}
		only, other, kind, prefix := f.Link, f.Peer, federation.ToLink, ""
		if peers {
			only, other, kind, prefix = f.Peer, f.Link, federation.ToPeer, federation.PeerDestination("")
		}
		if other != "" {
			continue
		}
		if peers != at.peers {
			at = waitPlace{peers: peers}
		}
		names, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT d.name FROM destination d WHERE CASE d.kind WHEN 'peer' THEN 'peer' ELSE 'link' END = ?1 AND d.name >= ?2 AND (?3 = '' OR d.name = ?4) AND (?5 = '' OR ?3 <> '' OR d.kind <> 'notices') AND `+hasWaiting+` ORDER BY d.name`,
			string(kind), prefix+at.name, only, prefix+only, f.ID) // an ID names a step, not the notices about it
		if err != nil {
			return nil, nil, err
		}
		for _, name := range names {
			short := name[len(prefix):]
			if short != at.name {
				at = waitPlace{peers: peers, name: short}
			}
			rows, err := s.waitingFor(ctx, f, name, at, limit-len(found))
			if err != nil {
				return nil, nil, err
			}
			for _, w := range rows {
				if w.Link = short; peers {
					w.Link, w.Peer = "", short
				}
				found = append(found, w)
				places = append(places, waitPlace{peers: peers, name: short, queued: engine.Stamp(w.Queued), row: w.row})
			}
			if len(found) >= limit {
				return found, places, nil
			}
		}
	}
	return found, places, nil
}

func (s *Outboxes) waitingFor(ctx context.Context, f federation.WaitingFilter, name string, at waitPlace, limit int) ([]waitingRow, error) {
	to, err := s.db.Destination(ctx, name)
	if err != nil || to == 0 {
		return nil, err
	}
	kind, _ := federation.KindOf(name)
	tables, id, message, handoff := s.waitingColumns(kind)
	which := ` AND (?5 = '' OR f.lane = ?5 OR ` + handoff + ` = ?5) AND (CAST(?6 AS bigint) = 0 OR f.queued <= ?6) AND (?7 = '' OR ` + id + ` = ?7 OR ` + message + ` = ?7)`
	found, err := engine.Rows(ctx, s.db.Reads(), scanWaiting(kind), `SELECT f.item, coalesce(`+id+`, ''), coalesce(`+message+`, ''), coalesce(`+handoff+`, f.lane), `+handoffs.EventColumns+`, f.queued, f.attempt,
			coalesce(f.next, 0), f.next IS NULL, f.reason
		FROM (`+aged(tables, which)+`) k JOIN delivery f ON f.item = k.item AND f.destination = k.destination`+tables+`
		ORDER BY f.queued, f.item LIMIT 0 + ?4`, to, at.queued, at.row, max(limit, 0), f.Handoff.String(), engine.Stamp(f.Before), f.ID)
	for i := range found {
		found[i].to = to
	}
	return found, err
}

// The results are the tables to join with a delivery f to a kind of destination, and the columns
// with the IDs of its event, message and handoff.
func (s *Outboxes) waitingColumns(kind federation.DestinationKind) (tables, id, message, handoff string) {
	const document = ` LEFT JOIN document r ON r.n = f.item - ` + queue.DocumentBase + ` LEFT JOIN event e ON e.seq = `
	switch kind {
	case federation.ToPeer:
		return document + s.db.Parts.DocumentStep + ` `, `e.id`, `r.message`, `r.handoff`
	case federation.ToWebhook, federation.ToReaders:
		return ` LEFT JOIN notice o ON o.n = f.item - ` + queue.NoticeBase + ` LEFT JOIN event e ON e.seq = CASE WHEN f.item < ` + queue.NoticeBase + ` THEN f.item ELSE ` + s.db.Parts.ItemStep + ` END `,
			`coalesce(e.id, o.event)`, s.db.Parts.ItemName, `(o.body -> 'event' ->> 'handoff')`
	case federation.ToLink:
	}
	return document + `f.item `, `e.id`, `r.message`, `r.handoff`
}

// WaitingFor returns up to limit deliveries that match a filter after a cursor, deliveries to peers
// last, and the next cursor, or "" at the end. It returns [federation.ErrUnknownCursor] for an
// unknown cursor.
func (s *Outboxes) WaitingFor(ctx context.Context, f federation.WaitingFilter, after federation.Cursor, limit int) ([]federation.Waiting, federation.Cursor, error) {
	at, err := parseWaitPlace(after)
	if err != nil {
		return nil, "", err
	}
	page, places, err := s.waiting(ctx, f, at, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("read what waits: %w", err)
	}
	var next federation.Cursor
	if len(page) > limit {
		page = page[:limit]
		next = after
		if limit > 0 {
			next = places[limit-1].cursor()
		}
	}
	var found []federation.Waiting
	for _, w := range page {
		found = append(found, w.Waiting)
	}
	return found, next, nil
}

// Shapes returns a row for each destination with a pending delivery, links first.
func (s *Outboxes) Shapes(ctx context.Context, now time.Time) ([]federation.Shape, error) {
	ages := federation.ShapeAges()
	args := make([]any, len(ages))
	for i, age := range ages {
		args[i] = engine.Stamp(now.Add(-age))
	}
	scan := func(row engine.Scanner) (sh federation.Shape, err error) {
		var oldest int64
		err = row.Scan(&sh.Link, &sh.Peer, &sh.Rows, &sh.Ages[0], &sh.Ages[1], &sh.Ages[2], &sh.Ages[3], &sh.Ages[4], &oldest)
		sh.Oldest = engine.Moment(oldest)
		return sh, err
	}
	among := func(which string) string { return `count(*) FILTER (WHERE ` + which + `)` }
	all, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT CASE d.kind WHEN 'peer' THEN '' ELSE d.name END, CASE d.kind WHEN 'peer' THEN substr(d.name, 6) ELSE '' END, count(*), `+
		among(`f.queued > ?1`)+`, `+among(`f.queued <= ?1 AND f.queued > ?2`)+`, `+among(`f.queued <= ?2 AND f.queued > ?3`)+`, `+
		among(`f.queued <= ?3 AND f.queued > ?4`)+`, `+among(`f.queued <= ?4`)+`, min(f.queued)
		FROM destination d JOIN delivery f ON f.destination = d.n WHERE f.state = 'waiting' AND d.kind IN ('link', 'peer', 'webhook', 'notices') GROUP BY d.kind, d.name ORDER BY d.kind, d.name`, args...)
	if err != nil {
		return nil, fmt.Errorf("count pending deliveries: %w", err)
	}
	return all, nil
}

func (s *Outboxes) eachWaiting(ctx context.Context, f federation.WaitingFilter, change func(ctx context.Context, q engine.Tx, w waitingRow) error) (changed int, err error) {
	var at waitPlace
	for {
		page, places, err := s.waiting(ctx, f, at, waitingPage)
		if err != nil || len(page) == 0 {
			return changed, err
		}
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			for _, w := range page {
				if err := change(ctx, q, w); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return changed, err
		}
		changed += len(page)
		at = places[len(places)-1]
	}
}

// Retry makes deliveries due at once, and returns their number.
func (s *Outboxes) Retry(ctx context.Context, f federation.WaitingFilter, now time.Time) (int, error) {
	n, err := s.eachWaiting(ctx, f, func(ctx context.Context, q engine.Tx, w waitingRow) error {
		next := int64(0)
		if kind, _ := federation.KindOf(w.Link); w.Peer != "" || kind == federation.ToWebhook {
			next = engine.Stamp(now)
			if err := q.Put(ctx, `UPDATE destination SET due = 0 WHERE n = ? AND (due IS NOT NULL OR kind = 'peer')`, w.to); err != nil {
				return err
			}
		}
		return q.Put(ctx, `UPDATE delivery SET next = ? WHERE item = ? AND destination = ? AND next IS NOT NULL`, next, w.row, w.to)
	})
	if err != nil {
		return n, fmt.Errorf("reschedule pending deliveries: %w", err)
	}
	return n, nil
}

// EndWaiting ends deliveries on behalf of an operator, and returns their number. Unless drop is
// true, it files dead letters and notifies the signers.
func (s *Outboxes) EndWaiting(ctx context.Context, f federation.WaitingFilter, drop bool, reason string, now time.Time) (int, error) {
	how := federation.Settlement{
		State: federation.DeliveryDead, Dead: federation.DeadOperator, Quiet: drop, At: now,
		Why: cmp.Or(reason, "failed by an operator"),
	}
	if drop {
		how.Dead = ""
	}
	n, err := s.eachWaiting(ctx, f, func(ctx context.Context, q engine.Tx, w waitingRow) error {
		switch kind, rest := federation.KindOf(w.Link); {
		case kind == federation.ToWebhook:
			id, err := federation.ParseEventID(rest)
			if err != nil {
				return err
			}
			return s.endPush(ctx, q, id, w.to, w.row, how)
		case kind == federation.ToReaders:
			return inboxes.EndNotice(ctx, q, w.to, w.row, how)
		case w.Link != "":
			return End(ctx, q, w.to, w.row, how)
		}
		if drop {
			return dropDocument(ctx, q, w.row)
		}
		to, r, err := waitingDocument(ctx, q, w.row)
		if errors.Is(err, federation.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.buryDocument(ctx, q, to, r, how)
	})
	if err != nil {
		return n, fmt.Errorf("fail pending deliveries: %w", err)
	}
	return n, nil
}

// Hold pauses deliveries to a destination until Release. A second Hold changes only the reason. A
// peer is held by its own name.
func (s *Outboxes) Hold(ctx context.Context, h federation.PausedQueue) error {
	kind, _ := federation.KindOf(h.To)
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO destination (name, kind, held, reason) VALUES (?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET held = CASE destination.held WHEN 0 THEN excluded.held ELSE destination.held END, reason = excluded.reason`, h.To, string(kind), engine.Stamp(h.Since), h.Reason)
	})
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.To, err)
	}
	return nil
}

// Release ends a hold. It returns [federation.ErrNotFound] without one.
func (s *Outboxes) Release(ctx context.Context, to string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		gone, err := q.Exec(ctx, `UPDATE destination SET held = 0, reason = '' WHERE name = ? AND held > 0`, to)
		if err == nil && gone == 0 {
			err = federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", to, err)
	}
	return nil
}

// Holds returns the holds, by name.
func (s *Outboxes) Holds(ctx context.Context) ([]federation.PausedQueue, error) {
	held, err := engine.Rows(ctx, s.db.Reads(), scanWithheld, `SELECT name, held, reason FROM destination WHERE name > '' AND held > 0 ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read holds: %w", err)
	}
	return held, nil
}

func scanWithheld(row engine.Scanner) (h federation.PausedQueue, err error) {
	var since int64
	err = row.Scan(&h.To, &since, &h.Reason)
	h.Since = engine.Moment(since)
	return h, err
}
