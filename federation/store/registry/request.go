package registry

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/handoffs"
)

// wait is what becomes of a message that is to be held.
type wait struct {
	edge string // the handle whose consent it waits for; "" for none
	lost bool   // its recipient never sees it
}

// ask decides whether a message is held, and makes its edge pending where no decision exists.
// A message that only accompanies an offer asks for nothing: it is lost where the offer is.
func ask(ctx context.Context, q engine.Tx, p agents.Posting) (wait, error) {
	m := p.Message
	edge := cmp.Or(p.Edge, m.From)
	c, err := consent(ctx, q, edge, m.To)
	if err != nil {
		return wait{}, err
	}
	if c.State == agents.ConsentAccepted {
		return wait{}, nil
	}
	var full crowd
	if edge == m.From { // also where it is blocked, which the answer must not tell
		if full, err = checkFirstContact(ctx, q, edge, m.To, p.Source, p.FirstContacts); err != nil {
			return wait{}, err
		}
	}
	switch c.State {
	case agents.ConsentPending:
		return wait{edge: edge}, full.drop(ctx, q, m.To, m.Received)
	case agents.ConsentBlocked:
		return wait{lost: true}, nil
	case agents.ConsentNone, agents.ConsentAccepted:
	}
	if p.Edge != "" && p.Edge != m.From || p.Quiet && m.Received.Before(c.Barred) {
		return wait{lost: true}, nil
	}
	if err := checkRequest(ctx, q, c, m.Received); err != nil {
		return wait{}, err
	}
	if err := full.drop(ctx, q, m.To, m.Received); err != nil {
		return wait{}, err
	}
	if err := request(ctx, q, edge, m.To, p.Source, m.Received); err != nil {
		return wait{}, err
	}
	if p.Handshake != nil {
		if _, err := insertMessage(ctx, q, *p.Handshake, ""); err != nil {
			return wait{}, err
		}
	}
	return wait{edge: edge}, nil
}

// MayAsk implements the port Consents of bridge/airc.
func (s *Registry) MayAsk(ctx context.Context, from, to, source string, firstContacts federation.InboxLimits, now time.Time) error {
	edge, err := consent(ctx, s.db.Reads(), from, to)
	if err == nil && edge.State == agents.ConsentNone {
		err = checkRequest(ctx, s.db.Reads(), edge, now)
	}
	if err == nil && (edge.State == agents.ConsentNone || edge.State == agents.ConsentPending) {
		_, err = checkFirstContact(ctx, s.db.Reads(), from, to, source, firstContacts)
	}
	if err != nil {
		return fmt.Errorf("look whether %s may ask %s: %w", from, to, err)
	}
	return nil
}

// checkRequest refuses a request for consent that the sender of an edge may not make
// now.
//
// spec: airc-v0.1.1 §9.6
func checkRequest(ctx context.Context, q engine.Tx, c agents.Consent, now time.Time) error {
	if now.Before(c.Barred) {
		return &federation.RefusalError{
			Code: federation.RateLimited, RetryAfter: c.Barred.Sub(now), Detail: "it was unblocked less than a day ago",
		}
	}
	var asked int
	var oldest int64
	err := q.Row(ctx, `SELECT count(*), coalesce(min(asked), 0) FROM consent WHERE sender = ? AND asked > ? AND state <> ?`,
		[]any{c.From, engine.Stamp(now.Add(-agents.RequestWindow)), agents.ConsentAccepted}, &asked, &oldest)
	if err != nil {
		return fmt.Errorf("count requests: %w", err)
	}
	if asked >= agents.MaxRequests {
		return &federation.RefusalError{
			Code: federation.RateLimited, RetryAfter: engine.Moment(oldest).Add(agents.RequestWindow).Sub(now),
			Detail: "too many handles were asked for consent within the hour",
		}
	}
	return nil
}

// crowd is a full list of first contacts, with the source of the entry to drop. The zero crowd is a
// list with room.
type crowd struct {
	full   bool
	source string
}

// checkFirstContact rejects a message to be held if the list is full and no entry may be dropped
// for it. A request without remaining messages counts as one entry.
//
// spec: airc-v0.1.1 §9.6; airc-shapes "Sessions and proofs"
func checkFirstContact(ctx context.Context, q engine.Tx, from, to, source string, limits federation.InboxLimits) (crowd, error) {
	if limits == (federation.InboxLimits{}) {
		return crowd{}, nil
	}
	type share struct {
		source       string
		entries, own int
		asked        int // 1 if the sender asked from this source
	}
	scan := func(row engine.Scanner) (s share, err error) {
		err = row.Scan(&s.source, &s.entries, &s.own, &s.asked)
		return s, err
	}
	found, err := engine.Rows(ctx, q, scan, `SELECT c.source, count(*), sum(CASE WHEN c.sender = ?1 AND m.n IS NOT NULL THEN 1 ELSE 0 END), max(CASE WHEN c.sender = ?1 THEN 1 ELSE 0 END)
		FROM consent c LEFT JOIN message m ON m.edge = c.sender AND m.recipient = c.recipient AND m.sender = c.sender
		WHERE c.recipient = ?2 AND c.state = 'pending' GROUP BY c.source`, from, to)
	if err != nil {
		return crowd{}, fmt.Errorf("count held messages: %w", err)
	}
	var held federation.InboxUse
	shares := map[string]int{}
	for _, s := range found {
		held.Entries, held.SenderEntries, shares[s.source] = held.Entries+s.entries, held.SenderEntries+s.own, s.entries
		if s.asked > 0 {
			source = s.source
		}
	}
	heaviest, yields := federation.Heaviest(shares, source)
	return crowd{limits.Events > 0 && held.Entries >= limits.Events, heaviest}, limits.CheckFirstContact(held, yields)
}

// drop drops the newest entry of the source with the largest share, if the list is full.
func (c crowd) drop(ctx context.Context, q engine.Tx, to string, now time.Time) error {
	if !c.full {
		return nil
	}
	var from string
	var n int64
	err := q.Row(ctx, `SELECT c.sender, coalesce(m.n, 0) FROM consent c LEFT JOIN message m ON m.edge = c.sender AND m.recipient = c.recipient AND m.sender = c.sender
		WHERE c.recipient = ? AND c.state = 'pending' AND c.source = ? ORDER BY coalesce(m.received, c.asked) DESC, coalesce(m.n, 0) DESC LIMIT 1`,
		[]any{to, c.source}, &from, &n)
	if err != nil {
		return fmt.Errorf("find newest first contact: %w", err)
	}
	if err := dropFirstContact(ctx, q, n, from, to, now); err != nil {
		return fmt.Errorf("drop first contact of %s: %w", from, err)
	}
	return nil
}

// dropFirstContact deletes a held message. A request without messages left is withdrawn, and its
// sender may ask again.
func dropFirstContact(ctx context.Context, q engine.Tx, n int64, from, to string, now time.Time) error {
	var left bool
	err := q.Put(ctx, `DELETE FROM message WHERE n = ?`, n)
	if err == nil {
		err = q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM message WHERE edge = ?1 AND recipient = ?2 AND sender = ?1)`, []any{from, to}, &left)
	}
	if err != nil || left {
		return err
	}
	if err := discard(ctx, q, from, to); err != nil {
		return err
	}
	return setConsent(ctx, q, from, to, agents.ConsentNone, now)
}

// request makes an edge pending.
func request(ctx context.Context, q engine.Tx, from, to, source string, now time.Time) error {
	if err := setConsent(ctx, q, from, to, agents.ConsentPending, now); err != nil {
		return err
	}
	err := q.Put(ctx, `UPDATE consent SET asked = ?, barred = 0, source = ? WHERE sender = ? AND recipient = ?`, engine.Stamp(now), source, from, to)
	if err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return nil
}

// noteUnseen remembers an offer without a deadline that its agent is not shown yet.
func noteUnseen(ctx context.Context, q engine.Tx, m agents.Message) error {
	if m.Event.IsZero() || m.Event != m.Handoff {
		return nil
	}
	err := q.Put(ctx, `INSERT INTO unseen (handoff, opened) SELECT id, since FROM handoff
		WHERE id = ? AND clock = 'unanswered' AND state = 'offered' ON CONFLICT DO NOTHING`, m.Handoff.String())
	if err != nil {
		return fmt.Errorf("note unseen offer: %w", err)
	}
	return nil
}

// Unseen returns up to limit handoffs without a deadline that were offered to an agent which
// never saw the offer: it waits for consent, or was thrown away. They were opened at or
// before the time, and have no answer; the oldest first.
func (s *Registry) Unseen(ctx context.Context, opened time.Time, limit int) ([]federation.View, error) {
	views, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanView, `SELECT h.view FROM unseen u JOIN handoff h ON h.id = u.handoff
		WHERE u.opened <= ? ORDER BY u.opened, u.handoff`+engine.AtMost, engine.Stamp(opened), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("look for unseen offers: %w", err)
	}
	return views, nil
}
