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
	if edge == m.From { // also where it is blocked, which the answer must not tell
		if err := checkFirstContact(ctx, q, edge, m.To, p.FirstContacts); err != nil {
			return wait{}, err
		}
	}
	switch c.State {
	case agents.ConsentPending:
		return wait{edge: edge}, nil
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
	if err := request(ctx, q, edge, m.To, m.Received); err != nil {
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
func (s *Registry) MayAsk(ctx context.Context, from, to string, firstContacts federation.InboxLimits, now time.Time) error {
	edge, err := consent(ctx, s.db.Reads(), from, to)
	if err == nil && edge.State == agents.ConsentNone {
		err = checkRequest(ctx, s.db.Reads(), edge, now)
	}
	if err == nil && (edge.State == agents.ConsentNone || edge.State == agents.ConsentPending) {
		err = checkFirstContact(ctx, s.db.Reads(), from, to, firstContacts)
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

// checkFirstContact refuses a message that would be held where too many are held already. A
// request whose messages are gone counts as one.
func checkFirstContact(ctx context.Context, q engine.Tx, from, to string, limits federation.InboxLimits) error {
	if limits == (federation.InboxLimits{}) {
		return nil
	}
	var held federation.InboxUse
	err := q.Row(ctx, `SELECT count(*), coalesce(sum(CASE WHEN c.sender = ? AND m.n IS NOT NULL THEN 1 ELSE 0 END), 0)
		FROM consent c LEFT JOIN message m ON m.edge = c.sender AND m.recipient = c.recipient AND m.sender = c.sender
		WHERE c.recipient = ? AND c.state = 'pending'`, []any{from, to}, &held.Entries, &held.SenderEntries)
	if err != nil {
		return fmt.Errorf("count held messages: %w", err)
	}
	return limits.CheckFirstContact(held)
}

// request makes an edge pending.
func request(ctx context.Context, q engine.Tx, from, to string, now time.Time) error {
	if err := setConsent(ctx, q, from, to, agents.ConsentPending, now); err != nil {
		return err
	}
	err := q.Put(ctx, `UPDATE consent SET asked = ?, barred = 0 WHERE sender = ? AND recipient = ?`, engine.Stamp(now), from, to)
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
