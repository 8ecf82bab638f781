package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
)

type wait struct {
	edge string // the handle whose consent it waits for, or ""
	lost bool   // its recipient never sees it
}

// ask decides whether a message is held, and makes its edge pending if no decision exists. A
// message that only accompanies an offer contains no request: it is lost with the offer.
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
	if edge == m.From { // even if it is blocked, which the response must not reveal
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

// MayAsk implements Consents of bridge/airc.
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
			Detail: "the hourly limit of consent requests is reached",
		}
	}
	return nil
}

// A crowd is a full list of first contacts, with the source of the entry to drop. The zero crowd
// is a list with free space.
type crowd struct {
	full   bool
	source string
}

// A request without remaining messages counts as one entry.
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

// A request without remaining messages is withdrawn, and its sender may make another request.
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

// Only an offer without a deadline is recorded.
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

// Unseen returns up to limit unanswered handoffs without a deadline whose agent never saw the
// offer, oldest first. They were opened at or before the given time.
func (s *Registry) Unseen(ctx context.Context, opened time.Time, limit int) ([]federation.View, error) {
	views, err := engine.Rows(ctx, s.db.Reads(), handoffs.ScanView, `SELECT h.view FROM unseen u JOIN handoff h ON h.id = u.handoff
		WHERE u.opened <= ? ORDER BY u.opened, u.handoff`+engine.AtMost, engine.Stamp(opened), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("find unseen offers: %w", err)
	}
	return views, nil
}

// Consent implements Consents of bridge/airc.
func (s *Registry) Consent(ctx context.Context, from, to string) (agents.Consent, error) {
	edge, err := consent(ctx, s.db.Reads(), from, to)
	if err != nil {
		return agents.Consent{}, fmt.Errorf("read consent %s to %s: %w", from, to, err)
	}
	return edge, nil
}

func consent(ctx context.Context, q engine.Tx, from, to string) (agents.Consent, error) {
	edge := agents.Consent{From: from, To: to, State: agents.ConsentNone}
	var updated, barred int64
	err := q.Row(ctx, `SELECT state, updated, version, barred FROM consent WHERE sender = ? AND recipient = ?`,
		[]any{from, to}, &edge.State, &updated, &edge.Version, &barred)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return agents.Consent{}, err
	}
	edge.Updated, edge.Barred = engine.Moment(updated), engine.Moment(barred)
	return edge, nil
}

// setConsent changes an edge that is not already in that state.
func setConsent(ctx context.Context, q engine.Tx, from, to string, state agents.ConsentState, now time.Time) error {
	err := q.Put(ctx, `INSERT INTO consent (sender, recipient, state, updated, version) VALUES (?, ?, ?, ?, 1)
		ON CONFLICT (sender, recipient) DO UPDATE SET state = excluded.state, updated = excluded.updated, version = consent.version + 1
		WHERE consent.state <> excluded.state`, from, to, state, engine.Stamp(now))
	if err != nil {
		return fmt.Errorf("write consent: %w", err)
	}
	return nil
}

// Accept implements Consents of bridge/airc. An accepted edge has no held messages, so messages
// held on the reverse edge are delivered too. A reverse edge blocked by its own recipient stays
// blocked, because only that recipient may unblock it.
func (s *Registry) Accept(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error {
		if err := accept(ctx, q, from, to, now); err != nil {
			return err
		}
		back, err := consent(ctx, q, to, from)
		if err != nil || back.State == agents.ConsentBlocked {
			return err
		}
		return accept(ctx, q, to, from, now)
	})
}

// AcceptOneWay implements Consents of bridge/airc.
func (s *Registry) AcceptOneWay(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error { return accept(ctx, q, from, to, now) })
}

// Delivers the held messages in order of arrival. Messages to a participant of another network stay
// held, because they do not belong to an inbox here.
func accept(ctx context.Context, q engine.Tx, from, to string, now time.Time) error {
	if err := setConsent(ctx, q, from, to, agents.ConsentAccepted, now); err != nil {
		return err
	}
	if err := q.Put(ctx, `UPDATE consent SET barred = 0 WHERE sender = ? AND recipient = ?`, from, to); err != nil {
		return fmt.Errorf("write consent: %w", err)
	}
	if !agents.ReadHere(to) {
		return nil
	}
	waiting, err := engine.Rows(ctx, q, scanHeld, `SELECT n, low, high FROM message WHERE edge = ? AND recipient = ? ORDER BY n`, from, to)
	if err != nil {
		return fmt.Errorf("read held messages: %w", err)
	}
	for _, h := range waiting {
		if err := deliver(ctx, q, h, to, now); err != nil {
			return err
		}
		err := q.Put(ctx, `DELETE FROM unseen WHERE handoff = (SELECT handoff FROM message WHERE n = ? AND event = handoff)`, h.n)
		if err != nil {
			return fmt.Errorf("note seen offer: %w", err)
		}
	}
	return nil
}

// Block implements Consents of bridge/airc.
func (s *Registry) Block(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error {
		before, err := consent(ctx, q, from, to)
		if err != nil || before.State == agents.ConsentBlocked {
			return err
		}
		if err := setConsent(ctx, q, from, to, agents.ConsentBlocked, now); err != nil {
			return err
		}
		err = q.Put(ctx, `UPDATE consent SET answered = ? WHERE sender = ? AND recipient = ?`,
			before.State == agents.ConsentPending, from, to)
		if err != nil {
			return err
		}
		return discard(ctx, q, from, to)
	})
}

func discard(ctx context.Context, q engine.Tx, from, to string) error {
	return q.Put(ctx, `DELETE FROM message WHERE edge = ? AND recipient = ?`, from, to)
}

// Unblock implements Consents of bridge/airc.
func (s *Registry) Unblock(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	return s.decide(ctx, from, to, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `UPDATE consent SET state = ?, updated = ?, version = version + 1, answered = 0,
			barred = CASE answered WHEN 0 THEN barred ELSE ? END WHERE sender = ? AND recipient = ? AND state = ?`,
			agents.ConsentNone, engine.Stamp(now), engine.Stamp(now.Add(agents.UnblockBar)), from, to, agents.ConsentBlocked)
	})
}

// Contacts implements Consents of bridge/airc.
func (s *Registry) Contacts(ctx context.Context, handle string, limit int) ([]string, error) {
	contacts, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT c.recipient FROM consent c
		JOIN consent back ON back.sender = c.recipient AND back.recipient = c.sender
		WHERE c.sender = ? AND c.state = 'accepted' AND back.state = 'accepted' ORDER BY c.recipient`+engine.AtMost, handle, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read contacts of %s: %w", handle, err)
	}
	return contacts, nil
}

// Pending implements Consents of bridge/airc.
func (s *Registry) Pending(ctx context.Context, to string, limit int) ([]agents.Consent, error) {
	scan := func(row engine.Scanner) (agents.Consent, error) {
		edge := agents.Consent{To: to, State: agents.ConsentPending}
		var updated int64
		err := row.Scan(&edge.From, &updated, &edge.Version)
		edge.Updated = engine.Moment(updated)
		return edge, err
	}
	pending, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT sender, updated, version FROM consent
		WHERE recipient = ? AND state = 'pending' ORDER BY asked, sender`+engine.AtMost, to, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read requests to %s: %w", to, err)
	}
	return pending, nil
}

// Edges implements Consents of bridge/airc.
func (s *Registry) Edges(ctx context.Context, to, after string, limit int) ([]agents.Consent, error) {
	scan := func(row engine.Scanner) (agents.Consent, error) {
		edge := agents.Consent{To: to}
		var updated, barred int64
		err := row.Scan(&edge.From, &edge.State, &updated, &edge.Version, &barred)
		edge.Updated, edge.Barred = engine.Moment(updated), engine.Moment(barred)
		return edge, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT sender, state, updated, version, barred FROM consent
		WHERE recipient = ? AND sender > ? AND state <> 'none' ORDER BY sender`+engine.AtMost, to, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read senders to %s: %w", to, err)
	}
	return found, nil
}

func (s *Registry) decide(ctx context.Context, from, to string, decision func(context.Context, engine.Tx) error) (agents.Consent, error) {
	edge, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (agents.Consent, error) {
		if err := decision(ctx, q); err != nil {
			return agents.Consent{}, err
		}
		return consent(ctx, q, from, to)
	})
	if err != nil {
		return agents.Consent{}, fmt.Errorf("decide consent %s to %s: %w", from, to, err)
	}
	return edge, nil
}
