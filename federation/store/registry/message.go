package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/store/deliveries"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/queue"
)

const messageColumns = `m.id, m.sender, m.recipient, coalesce(m.seq, 0), m.envelope,
	coalesce(m.event, ''), coalesce(m.handoff, ''), m.received, coalesce(m.told, 0),
	coalesce((SELECT h.state FROM handoff h WHERE h.id = m.handoff), '')`

type messageScan struct {
	message        agents.Message
	event, handoff []byte
	received, told int64
}

func (s *messageScan) dest() []any {
	m := &s.message
	return []any{&m.ID, &m.From, &m.To, &m.Seq, &m.Envelope, &s.event, &s.handoff, &s.received, &s.told, &m.Now}
}

func (s *messageScan) read() (agents.Message, error) {
	s.message.Received, s.message.Told = engine.Moment(s.received), engine.Moment(s.told)
	err := errors.Join(s.message.Event.UnmarshalText(s.event), s.message.Handoff.UnmarshalText(s.handoff))
	if err != nil {
		return agents.Message{}, fmt.Errorf("decode message: %w", err)
	}
	return s.message, nil
}

func scanMessage(row engine.Scanner) (agents.Message, error) {
	var m messageScan
	if err := row.Scan(m.dest()...); err != nil {
		return agents.Message{}, err
	}
	return m.read()
}

func oneMessage(ctx context.Context, q engine.Tx, where string, args ...any) (agents.Message, error) {
	var m messageScan
	if err := q.Row(ctx, `SELECT `+messageColumns+` FROM message m WHERE `+where, args, m.dest()...); err != nil {
		return agents.Message{}, err
	}
	return m.read()
}

// Post implements Messages of bridge/airc. If the edge of a held message was accepted meanwhile,
// the message is delivered at once. A block is not changed.
func (s *Registry) Post(ctx context.Context, p agents.Posting) (agents.Message, error) {
	filed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (agents.Message, error) {
		return post(ctx, q, p)
	})
	if err != nil {
		return agents.Message{}, fmt.Errorf("post message: %w", err)
	}
	return filed, nil
}

func post(ctx context.Context, q engine.Tx, p agents.Posting) (agents.Message, error) {
	m := p.Message
	var filed, repeated bool
	err := q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM message WHERE recipient = ? AND event = ?),
		EXISTS (SELECT 1 FROM message WHERE id = ? AND sender = ? AND received > ?)`,
		[]any{m.To, m.Event.String(), m.ID, m.From, engine.Stamp(m.Received.Add(-agents.MessageIDWindow))}, &filed, &repeated)
	switch {
	case err != nil:
		return agents.Message{}, err
	case filed:
		return oneMessage(ctx, q, `m.recipient = ? AND m.event = ?`, m.To, m.Event.String())
	case repeated:
		return agents.Message{}, agents.ErrDuplicate
	}
	var w wait
	if p.Held {
		if w, err = ask(ctx, q, p); err != nil {
			return agents.Message{}, err
		}
	}
	if w.edge != "" || w.lost {
		if err := noteUnseen(ctx, q, m); err != nil {
			return agents.Message{}, err
		}
	}
	if w.lost {
		m.Seq, m.Cursor, m.Received = 0, "", engine.Moment(engine.Stamp(m.Received))
		return m, nil
	}
	if p.Relay != nil {
		if err := deliveries.Enqueue(ctx, q, *p.Relay); err != nil {
			return agents.Message{}, fmt.Errorf("queue for %s: %w", p.Relay.Peer, err)
		}
	}
	if err := handoffs.ClaimBlob(ctx, q, m.Handoff.String(), p.Blob); err != nil {
		return agents.Message{}, fmt.Errorf("claim blob: %w", err)
	}
	return insertMessage(ctx, q, m, w.edge)
}

// The message waits for the consent to an edge, or is delivered if edge is "".
func insertMessage(ctx context.Context, q engine.Tx, m agents.Message, edge string) (agents.Message, error) {
	const columns = `INSERT INTO message (low, high, recipient, id, sender, envelope, event, handoff, received, slow`
	args := []any{
		min(m.From, m.To), max(m.From, m.To), m.To, m.ID, m.From, engine.NotNull(m.Envelope),
		engine.OrNull(m.Event.String()), engine.OrNull(m.Handoff.String()), engine.Stamp(m.Received), delayStateOf(m),
	}
	var err error
	var told int64
	var called bool
	item := queue.Row{Lane: orderOf(m), Queued: engine.Stamp(m.Received)}
	now := toTell(m.Received)
	m.Seq, m.Cursor, m.Received, m.Told = 0, "", engine.Moment(engine.Stamp(m.Received)), time.Time{}
	if edge != "" {
		err = q.Put(ctx, columns+`, edge) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(args, edge)...)
	} else {
		err = q.Row(ctx, columns+`, seq, position, told) VALUES (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, `+next+`) RETURNING seq, told, n, `+queue.HasParticipant(`message.recipient`),
			append([]any{now}, args...), &m.Seq, &told, &item.Item, &called)
		m.Told = engine.Moment(told)
	}
	if err != nil {
		return agents.Message{}, fmt.Errorf("insert message: %w", err)
	}
	if called {
		if err := queueMessage(ctx, q, m.From, m.To, item); err != nil {
			return agents.Message{}, fmt.Errorf("queue for webhooks: %w", err)
		}
	}
	return m, nil
}

func queueMessage(ctx context.Context, q engine.Tx, sender, recipient string, item queue.Row) (err error) {
	if item.Sender, err = engine.Intern(ctx, q, federation.DID(sender)); err != nil {
		return err
	}
	item.Item += queue.FirstMessage
	return queue.PushMessage(ctx, q, recipient, item)
}

func orderOf(m agents.Message) string {
	if m.Handoff.IsZero() {
		return m.From
	}
	return m.Handoff.String()
}

// The values are the next places in the thread (low ?2, high ?3) and in the inbox of the recipient
// (?4), and the reported time: now (?1), but later than that of its predecessor.
const next = `(SELECT coalesce(max(seq), 0) + 1 FROM message WHERE low = ?2 AND high = ?3),
	(SELECT coalesce(max(position), 0) + 1 FROM message WHERE recipient = ?4),
	max(?1, (SELECT coalesce(max(told), 0) FROM message WHERE low = ?2 AND high = ?3
		AND seq = (SELECT max(seq) FROM message WHERE low = ?2 AND high = ?3)) + 1000000)`

// The time is truncated to a millisecond.
func toTell(now time.Time) int64 { return engine.Stamp(now.Truncate(time.Millisecond)) }

type held struct {
	n         int64
	low, high string
}

func scanHeld(row engine.Scanner) (held, error) {
	var h held
	err := row.Scan(&h.n, &h.low, &h.high)
	return h, err
}

func deliver(ctx context.Context, q engine.Tx, h held, recipient string, now time.Time) error {
	item := queue.Row{Item: h.n}
	var called bool
	var sender string
	err := q.Row(ctx, `UPDATE message SET edge = NULL, (seq, position, told) = (SELECT `+next+`) WHERE n = ?5
		RETURNING sender, coalesce(handoff, sender), received, `+queue.HasParticipant(`message.recipient`),
		[]any{toTell(now), h.low, h.high, recipient, h.n}, &sender, &item.Lane, &item.Queued, &called)
	if err == nil && called {
		err = queueMessage(ctx, q, sender, recipient, item)
	}
	if err != nil {
		return fmt.Errorf("deliver message: %w", err)
	}
	return nil
}

// Sent implements Messages of bridge/airc.
func (s *Registry) Sent(ctx context.Context, from, id string, since time.Time) (agents.Message, error) {
	m, err := oneMessage(ctx, s.db.Reads(), `m.id = ? AND m.sender = ? AND m.received >= ? AND m.deleted < 2
		ORDER BY m.n DESC LIMIT 1`, id, from, engine.Stamp(since))
	if err != nil {
		return agents.Message{}, fmt.Errorf("look up message sent by %s: %w", from, err)
	}
	return m, nil
}

// Named implements Messages of bridge/airc. If there are several, it returns the last one.
func (s *Registry) Named(ctx context.Context, handle, id string) (agents.Message, error) {
	m, err := oneMessage(ctx, s.db.Reads(), `m.id = ?1 AND m.deleted < 2 AND (m.sender = ?2 OR m.recipient = ?2 AND m.seq IS NOT NULL)
		ORDER BY m.n DESC LIMIT 1`, id, handle)
	if errors.Is(err, federation.ErrNotFound) {
		m, err = oneMessage(ctx, s.db.Reads(), `m.n = (SELECT t.n FROM peer_delivery_id r JOIN message t ON t.id = r.message AND t.sender = r.sender
			WHERE r.id = ?1 AND t.recipient = ?2 ORDER BY t.n DESC LIMIT 1)`, id, handle)
	}
	if err != nil {
		return agents.Message{}, fmt.Errorf("look up message of %s: %w", handle, err)
	}
	return m, nil
}

// OfferMessage implements Messages of bridge/airc.
func (s *Registry) OfferMessage(ctx context.Context, handle string, id federation.HandoffID) (agents.Message, error) {
	m, err := oneMessage(ctx, s.db.Reads(), `m.handoff = ?1 AND m.event = ?1 AND m.deleted < 2
		AND (m.sender = ?2 OR m.recipient = ?2 AND m.seq IS NOT NULL) ORDER BY m.n DESC LIMIT 1`, id.String(), handle)
	if err != nil {
		return agents.Message{}, fmt.Errorf("look up offer of %s: %w", id, err)
	}
	return m, nil
}

// The sender of a held message begins with [agents.Unverified]: it is between ">" and "@" in ASCII.
// A literal would be a parameter here.
const unverified = `m.edge > '>' AND m.edge < '@'`

// HeldRelays implements Messages of bridge/airc.
func (s *Registry) HeldRelays(ctx context.Context, from, to string, after int64, limit int) ([]agents.Held, error) {
	scan := func(row engine.Scanner) (h agents.Held, err error) {
		var m messageScan
		if err = row.Scan(append([]any{&h.ID}, m.dest()...)...); err == nil {
			h.Message, err = m.read()
		}
		return h, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT m.n, `+messageColumns+` FROM message m
		WHERE `+unverified+` AND (?1 = '' OR m.edge = ?1) AND (?2 = '' OR m.recipient = ?2) AND m.n > ?3 ORDER BY m.n LIMIT 0 + ?4`,
		from, to, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read held relays: %w", err)
	}
	return found, nil
}

// HeldRelay implements Messages of bridge/airc.
func (s *Registry) HeldRelay(ctx context.Context, id int64) (agents.Message, error) {
	m, err := oneMessage(ctx, s.db.Reads(), `m.n = ? AND `+unverified, id)
	if err != nil {
		return agents.Message{}, fmt.Errorf("read held relay %d: %w", id, err)
	}
	return m, nil
}

// DeliverHeld implements Messages of bridge/airc.
func (s *Registry) DeliverHeld(ctx context.Context, id int64, now time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		h := held{n: id}
		var to string
		err := q.Row(ctx, `SELECT m.low, m.high, m.recipient FROM message m WHERE m.n = ? AND `+unverified, []any{id}, &h.low, &h.high, &to)
		if err != nil {
			return err
		}
		return deliver(ctx, q, h, to, now)
	})
	if err != nil {
		return fmt.Errorf("deliver held relay %d: %w", id, err)
	}
	return nil
}

// DropHeld deletes a held relay, or returns [federation.ErrNotFound] if it is not held.
func (s *Registry) DropHeld(ctx context.Context, id int64, now time.Time) error {
	gone, err := s.dropHeldRelays(ctx, now, ` AND m.n = ?`, id)
	if err == nil && gone == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("drop held relay %d: %w", id, err)
	}
	return nil
}

// ExpireHeld deletes up to limit held relays that arrived at or before a given time, and returns
// their number.
func (s *Registry) ExpireHeld(ctx context.Context, before, now time.Time, limit int) (int, error) {
	gone, err := s.dropHeldRelays(ctx, now, ` AND m.received <= ? ORDER BY m.n`+engine.AtMost, engine.Stamp(before), max(limit, 0))
	if err != nil {
		return 0, fmt.Errorf("expire held relays: %w", err)
	}
	return gone, nil
}

func (s *Registry) dropHeldRelays(ctx context.Context, now time.Time, which string, args ...any) (int, error) {
	type row struct {
		n        int64
		from, to string
	}
	scan := func(found engine.Scanner) (r row, err error) {
		err = found.Scan(&r.n, &r.from, &r.to)
		return r, err
	}
	return engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		rows, err := engine.Rows(ctx, q, scan, `SELECT m.n, m.sender, m.recipient FROM message m WHERE `+unverified+which, args...)
		for _, r := range rows {
			if err == nil {
				err = dropFirstContact(ctx, q, r.n, r.from, r.to, now)
			}
		}
		return len(rows), err
	})
}

const (
	delayNotReported       = 0
	delayReported          = 1 // its signer was notified
	delayReportedElsewhere = 2 // no agent here reads the message: another delivery reports it
)

func delayStateOf(m agents.Message) int {
	if agents.ReadHere(m.To) {
		return delayNotReported
	}
	return delayReportedElsewhere
}

// HandOut implements Messages of bridge/airc. A polling reader gets the same page repeatedly, so
// only a change causes a write.
func (s *Registry) HandOut(ctx context.Context, to string, events []federation.EventID, now time.Time) error {
	if len(events) == 0 {
		return nil
	}
	ids, err := json.Marshal(events)
	if err != nil {
		return fmt.Errorf("write event ids: %w", err)
	}
	const which = `recipient = ? AND ended IS NULL AND event IN (SELECT j.value FROM json_each(?) j)`
	var waiting int
	err = s.db.Reads().Row(ctx, `SELECT count(*) FROM message WHERE `+which, []any{to, string(ids)}, &waiting)
	if err == nil && waiting > 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			found, err := handOuts(ctx, q, which+` ORDER BY n`, to, string(ids))
			if err != nil {
				return err
			}
			return endHandOuts(ctx, q, found, federation.DeliveryDelivered, now)
		})
	}
	if err != nil {
		return fmt.Errorf("mark messages delivered to %s: %w", to, err)
	}
	return nil
}

// The recipient has not fetched the step.
type handOut struct {
	n, step   int64
	recipient string
	offer     bool
	slow      int
}

func handOuts(ctx context.Context, q engine.Tx, where string, args ...any) ([]handOut, error) {
	scan := func(row engine.Scanner) (h handOut, err error) {
		err = row.Scan(&h.n, &h.recipient, &h.slow, &h.offer, &h.step)
		return h, err
	}
	return engine.Rows(ctx, q, scan, `SELECT n, recipient, slow, event = handoff,
		coalesce((SELECT e.seq FROM event e WHERE e.id = message.event AND e.handoff || '' = message.handoff), 0)
		FROM message WHERE `+where, args...)
}

// Notifies signers of abandoned steps, and signers that were notified of a delay. The home notifies
// the offerer of an offer that expired unseen.
func endHandOuts(ctx context.Context, q engine.Tx, found []handOut, how federation.DeliveryState, now time.Time) error {
	for _, h := range found {
		if err := q.Put(ctx, `UPDATE message SET ended = ?, outcome = ? WHERE n = ?`, engine.Stamp(now), string(how), h.n); err != nil {
			return err
		}
		n := federation.Notice{Kind: federation.NoticeDelivered, To: h.recipient, At: now}
		tell := h.slow == delayReported
		if how == federation.DeliveryExpired {
			n.Kind, n.Code, n.Why = federation.NoticeUndeliverable, string(federation.DeadExpired), "it was not fetched"
			tell = !h.offer
		}
		if !tell {
			continue
		}
		if err := inboxes.NoteStep(ctx, q, h.step, n); err != nil {
			return err
		}
	}
	return nil
}

// The messages were filed for their recipients at or before a given time and not fetched since.
func (s *Registry) overHandOuts(ctx context.Context, slow int, before time.Time, limit int,
	change func(ctx context.Context, q engine.Tx, found []handOut) error,
) (int, error) {
	const which = `event IS NOT NULL AND ended IS NULL AND slow < 2 AND slow = ? AND told <= ? ORDER BY told, n`
	found, err := handOuts(ctx, s.db.Reads(), which+engine.AtMost, slow, engine.Stamp(before), max(limit, 0))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	changed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		still, err := handOuts(ctx, q, which+engine.AtMost, slow, engine.Stamp(before), len(found)) // some were handed out meanwhile
		if err != nil {
			return 0, err
		}
		return len(still), change(ctx, q, still)
	})
	if err != nil {
		return 0, fmt.Errorf("mark pending messages: %w", err)
	}
	return changed, nil
}

func (s *Registry) delayHandOuts(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	return s.overHandOuts(ctx, delayNotReported, before, limit, func(ctx context.Context, q engine.Tx, found []handOut) error {
		for _, h := range found {
			if err := q.Put(ctx, `UPDATE message SET slow = ? WHERE n = ?`, delayReported, h.n); err != nil {
				return err
			}
			n := federation.Notice{Kind: federation.NoticeDelayed, To: h.recipient, Why: "it was not fetched", At: now}
			if err := inboxes.NoteStep(ctx, q, h.step, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// The entries stay in the inboxes.
func (s *Registry) expireHandOuts(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	for _, slow := range []int{delayNotReported, delayReported} {
		n, err := s.overHandOuts(ctx, slow, before, limit-expired, func(ctx context.Context, q engine.Tx, found []handOut) error {
			return endHandOuts(ctx, q, found, federation.DeliveryExpired, now)
		})
		if expired += n; err != nil {
			return expired, err
		}
	}
	return expired, nil
}
