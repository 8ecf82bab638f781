package deliveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
)

// waitingDeliveries and waitingPeerDeliveries are the rows that match a filter, in the order
// of their keys, with the parameters of filterArgs.
const (
	waitingDeliveries = `FROM outbox f LEFT JOIN event e ON e.seq = f.event
		WHERE (?1 = '' OR f.link = ?1) AND ?2 = '' AND (?3 = '' OR f.handoff = ?3) AND (CAST(?4 AS bigint) = 0 OR f.filed <= ?4) AND (?5 = '' OR e.id = ?5)`
	waitingPeerDeliveries = ` WHERE r.dead IS NULL AND ?1 = '' AND (?2 = '' OR r.peer = ?2) AND (?3 = '' OR r.handoff = ?3) AND (CAST(?4 AS bigint) = 0 OR r.queued <= ?4)
			AND (?5 = '' OR e.id = ?5 OR r.message = ?5)`
)

func filterArgs(f federation.WaitingFilter) []any {
	return []any{f.Link, f.Peer, f.Handoff.String(), engine.Stamp(f.Before), f.ID}
}

// waitingPage is how many rows one write changes.
const waitingPage = 128

// waitingRow is a delivery with its place in its table.
type waitingRow struct {
	federation.Waiting
	row int64
}

// scanWaiting reads a pending delivery. An unreadable part is no error, and is reported where
// nothing else went wrong: one bad row stops no list.
func scanWaiting(row engine.Scanner) (w waitingRow, err error) {
	var event, handoff string
	var queued, next int64
	var e handoffs.EventScan
	dest := append([]any{&w.row, &w.Link, &w.Peer, &event, &w.Message, &handoff}, e.Dest()...)
	if err := row.Scan(append(dest, &queued, &w.Attempt, &next, &w.Behind, &w.Reason)...); err != nil {
		return w, err
	}
	w.Queued, w.Next, w.Verb = engine.Moment(queued), engine.Moment(next), verbOf(e)
	err = errors.Join(w.Event.UnmarshalText([]byte(event)), w.Handoff.UnmarshalText([]byte(handoff)))
	if err != nil && w.Reason == "" {
		w.Reason = "the row cannot be read: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return w, nil
}

// verbOf returns the verb of an event, "" if that cannot be read.
func verbOf(e handoffs.EventScan) federation.Verb {
	ev, _ := e.Read() // reported by baton verify
	return ev.Verb
}

// waiting returns rows after a place, of links or else of their peers.
func (s *Outboxes) waiting(ctx context.Context, f federation.WaitingFilter, after waitPlace, limit int) ([]waitingRow, error) {
	if after.relays {
		return engine.Rows(ctx, s.db.Reads(), scanWaiting, `SELECT r.n, '', r.peer, coalesce(e.id, ''), r.message, r.handoff, `+handoffs.EventColumns+`, r.queued, r.attempt, r.next,
			EXISTS (SELECT 1 FROM peer_delivery b WHERE b.peer = r.peer AND b.order_key = r.order_key AND b.n < r.n AND b.dead IS NULL), coalesce(r.reason, '')
			FROM peer_delivery r LEFT JOIN event e ON e.seq = `+s.db.Parts.PeerDeliveryStep+waitingPeerDeliveries+` AND r.n > ?6 ORDER BY r.n LIMIT 0 + ?7`, append(filterArgs(f), after.row, max(limit, 0))...)
	}
	return engine.Rows(ctx, s.db.Reads(), scanWaiting, `SELECT f.event, f.link, '', coalesce(e.id, ''), '', f.handoff, `+handoffs.EventColumns+`, f.filed, f.attempt,
		coalesce(f.next, 0), f.next IS NULL, f.reason `+
		waitingDeliveries+` AND (f.link, f.event) > (?6, ?7) ORDER BY f.link, f.event LIMIT 0 + ?8`, append(filterArgs(f), after.link, after.row, max(limit, 0))...)
}

// waitPlace is where a list of deliveries goes on.
type waitPlace struct {
	relays bool
	link   string
	row    int64
}

func (p waitPlace) cursor() federation.Cursor {
	kind := "f"
	if p.relays {
		kind = "r"
	}
	return federation.Cursor(kind + strconv.FormatInt(p.row, 10) + " " + p.link)
}

func parseWaitPlace(c federation.Cursor) (p waitPlace, err error) {
	if c == "" {
		return p, nil
	}
	first, link, ok := strings.Cut(string(c), " ")
	if !ok || len(first) < 2 || first[0] != 'f' && first[0] != 'r' {
		return p, federation.ErrUnknownCursor
	}
	p = waitPlace{relays: first[0] == 'r', link: link}
	if p.row, err = strconv.ParseInt(first[1:], 10, 64); err != nil {
		return p, federation.ErrUnknownCursor
	}
	return p, nil
}

// WaitingFor returns up to limit deliveries that match a filter after a cursor, those to links
// first, and the cursor to go on from: "" at the end. The error is [federation.ErrUnknownCursor]
// for an unknown cursor.
func (s *Outboxes) WaitingFor(ctx context.Context, f federation.WaitingFilter, after federation.Cursor, limit int) ([]federation.Waiting, federation.Cursor, error) {
	at, err := parseWaitPlace(after)
	if err != nil {
		return nil, "", err
	}
	var found []federation.Waiting
	for {
		page, err := s.waiting(ctx, f, at, limit-len(found)+1)
		if err != nil {
			return nil, "", fmt.Errorf("read what waits: %w", err)
		}
		for _, w := range page {
			if len(found) == limit {
				return found, at.cursor(), nil
			}
			found = append(found, w.Waiting)
			at = waitPlace{relays: at.relays, link: w.Link, row: w.row}
		}
		if at.relays {
			return found, "", nil
		}
		at = waitPlace{relays: true}
	}
}

// Shapes returns a row for each destination that anything waits for, links first.
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
	counts := func(at string) string {
		among := func(which string) string {
			return `count(*) FILTER (WHERE ` + strings.ReplaceAll(which, "at", at) + `)`
		}
		return `count(*), ` + among(`at > ?1`) + `, ` + among(`at <= ?1 AND at > ?2`) + `, ` + among(`at <= ?2 AND at > ?3`) + `, ` +
			among(`at <= ?3 AND at > ?4`) + `, ` + among(`at <= ?4`) + `, min(` + at + `)`
	}
	var all []federation.Shape
	for _, query := range []string{
		`SELECT link, '', ` + counts("filed") + ` FROM outbox WHERE link > '' GROUP BY link ORDER BY link`,
		`SELECT '', peer, ` + counts("queued") + ` FROM peer_delivery WHERE dead IS NULL AND peer > '' GROUP BY peer ORDER BY peer`,
	} {
		found, err := engine.Rows(ctx, s.db.Reads(), scan, query, args...)
		if err != nil {
			return nil, fmt.Errorf("count what waits: %w", err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// eachWaiting changes all deliveries that a filter admits, page by page.
func (s *Outboxes) eachWaiting(ctx context.Context, f federation.WaitingFilter, change func(ctx context.Context, q engine.Tx, w waitingRow) error) (changed int, err error) {
	for _, at := range []waitPlace{{}, {relays: true}} {
		for more := true; more; {
			page, err := s.waiting(ctx, f, at, waitingPage)
			if err != nil || len(page) == 0 {
				if err != nil {
					return changed, err
				}
				break
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
			last := page[len(page)-1]
			at.link, at.row, more = last.Link, last.row, len(page) == waitingPage
		}
	}
	return changed, nil
}

// Retry lets deliveries be tried at once, and returns how many.
func (s *Outboxes) Retry(ctx context.Context, f federation.WaitingFilter, now time.Time) (int, error) {
	n, err := s.eachWaiting(ctx, f, func(ctx context.Context, q engine.Tx, w waitingRow) error {
		change, args := `UPDATE peer_delivery SET next = ? WHERE n = ? AND dead IS NULL`, []any{engine.Stamp(now), w.row}
		if w.Link != "" {
			change, args = `UPDATE outbox SET next = 0 WHERE event = ? AND link = ? AND next IS NOT NULL`, []any{w.row, w.Link}
		}
		return q.Put(ctx, change, args...)
	})
	if err != nil {
		return n, fmt.Errorf("hurry what waits: %w", err)
	}
	return n, nil
}

// GiveUp ends deliveries on behalf of an operator: as dead letters with a notice to the signer,
// or, with drop, without both. It returns how many.
func (s *Outboxes) GiveUp(ctx context.Context, f federation.WaitingFilter, drop bool, reason string, now time.Time) (int, error) {
	how := federation.Settlement{
		State: federation.DeliveryDead, Dead: federation.DeadOperator, Quiet: drop, At: now,
		Why: cmp.Or(reason, "an operator gave it up"),
	}
	if drop {
		how.Dead = ""
	}
	n, err := s.eachWaiting(ctx, f, func(ctx context.Context, q engine.Tx, w waitingRow) error {
		if w.Link != "" {
			return End(ctx, q, w.Link, w.row, how)
		}
		if drop {
			return EndPeerDelivery(ctx, q, w.row)
		}
		found, err := engine.Rows(ctx, q, scanPeerDelivery, `SELECT `+peerDeliveryColumns+` FROM peer_delivery WHERE n = ? AND dead IS NULL`, w.row)
		if err != nil || len(found) == 0 {
			return err
		}
		return s.buryPeerDelivery(ctx, q, found[0], how)
	})
	if err != nil {
		return n, fmt.Errorf("give up what waits: %w", err)
	}
	return n, nil
}

// Hold keeps deliveries to a link or a peer back until Release. Holding it again changes
// only the reason.
func (s *Outboxes) Hold(ctx context.Context, h federation.Withheld) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO held (name, since, reason) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET reason = excluded.reason`, h.To, engine.Stamp(h.Since), h.Reason)
	})
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.To, err)
	}
	return nil
}

// Release ends a hold. It returns [federation.ErrNotFound] without one.
func (s *Outboxes) Release(ctx context.Context, to string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		gone, err := q.Exec(ctx, `DELETE FROM held WHERE name = ?`, to)
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
func (s *Outboxes) Holds(ctx context.Context) ([]federation.Withheld, error) {
	held, err := engine.Rows(ctx, s.db.Reads(), scanWithheld, `SELECT name, since, reason FROM held WHERE name > '' ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read holds: %w", err)
	}
	return held, nil
}

func scanWithheld(row engine.Scanner) (h federation.Withheld, err error) {
	var since int64
	err = row.Scan(&h.To, &since, &h.Reason)
	h.Since = engine.Moment(since)
	return h, err
}

// Held returns whether, and since when, an operator paused the deliveries to a link or a peer.
func (s *Outboxes) Held(ctx context.Context, to string) (federation.Withheld, bool, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanWithheld, `SELECT name, since, reason FROM held WHERE name = ?`, to)
	if err != nil {
		return federation.Withheld{}, false, fmt.Errorf("read hold of %s: %w", to, err)
	}
	if i := slices.IndexFunc(found, func(h federation.Withheld) bool { return h.To == to }); i >= 0 {
		return found[i], true, nil
	}
	return federation.Withheld{}, false, nil
}
