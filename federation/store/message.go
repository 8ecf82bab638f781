package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

const messageColumns = `m.id, m.sender, m.recipient, coalesce(m.seq, 0), m.envelope,
	coalesce(m.event, ''), coalesce(m.handoff, ''), m.received`

// messageScan collects the columns of one message.
type messageScan struct {
	message        federation.Message
	event, handoff []byte
	received       int64
}

func (s *messageScan) dest() []any {
	m := &s.message
	return []any{&m.ID, &m.From, &m.To, &m.Seq, &m.Envelope, &s.event, &s.handoff, &s.received}
}

func (s *messageScan) read() (federation.Message, error) {
	s.message.Received = moment(s.received)
	err := errors.Join(s.message.Event.UnmarshalText(s.event), s.message.Handoff.UnmarshalText(s.handoff))
	if err != nil {
		return federation.Message{}, fmt.Errorf("decode message: %w", err)
	}
	return s.message, nil
}

// oneMessage reads the message that the rest of a query finds.
func oneMessage(ctx context.Context, q *statements, where string, args ...any) (federation.Message, error) {
	var m messageScan
	if err := q.row(ctx, `SELECT `+messageColumns+` FROM message m WHERE `+where, args, m.dest()...); err != nil {
		return federation.Message{}, err
	}
	return m.read()
}

// Post implements [federation.Registry]. A message that is to be held on an edge
// that was accepted meanwhile is delivered at once; a block stays a block.
func (s *SQLite) Post(ctx context.Context, p federation.Posting) (federation.Message, error) {
	var filed federation.Message
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		var err error
		filed, err = post(ctx, q, p)
		return err
	})
	if err != nil {
		return federation.Message{}, fmt.Errorf("post message: %w", err)
	}
	return filed, nil
}

func post(ctx context.Context, q *statements, p federation.Posting) (federation.Message, error) {
	m := p.Message
	if !m.Event.IsZero() {
		on, err := oneMessage(ctx, q, `m.recipient = ? AND m.event = ?`, m.To, m.Event.String())
		if !errors.Is(err, federation.ErrNotFound) {
			return on, err
		}
	}
	_, err := oneMessage(ctx, q, `m.id = ? AND m.sender = ? AND m.received > ? LIMIT 1`,
		m.ID, m.From, stamp(m.Received.Add(-federation.MessageIDWindow)))
	switch {
	case err == nil:
		return federation.Message{}, federation.ErrDuplicate
	case !errors.Is(err, federation.ErrNotFound):
		return federation.Message{}, err
	}
	held := p.Held
	if held {
		if held, err = ask(ctx, q, p); err != nil {
			return federation.Message{}, err
		}
	}
	return insertMessage(ctx, q, m, held)
}

// ask makes the edge of a message pending where nothing was decided about it, and
// reports whether the message has to wait.
func ask(ctx context.Context, q *statements, p federation.Posting) (held bool, err error) {
	m := p.Message
	edge, err := consent(ctx, q, m.From, m.To)
	if err != nil {
		return false, err
	}
	if edge.State != federation.ConsentNone {
		return edge.State != federation.ConsentAccepted, nil
	}
	if err := setConsent(ctx, q, m.From, m.To, federation.ConsentPending, m.Received); err != nil {
		return false, err
	}
	if p.Handshake != nil {
		if _, err := insertMessage(ctx, q, *p.Handshake, false); err != nil {
			return false, err
		}
	}
	return true, nil
}

func insertMessage(ctx context.Context, q *statements, m federation.Message, held bool) (federation.Message, error) {
	var n int64
	err := q.row(ctx, `INSERT INTO message (id, sender, recipient, low, high, envelope, event, handoff, received)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING n`,
		[]any{
			m.ID, m.From, m.To, min(m.From, m.To), max(m.From, m.To), notNull(m.Envelope),
			orNull(m.Event.String()), orNull(m.Handoff.String()), stamp(m.Received),
		}, &n)
	if err != nil {
		return federation.Message{}, fmt.Errorf("insert message: %w", err)
	}
	if !held {
		if err := deliver(ctx, q, n); err != nil {
			return federation.Message{}, err
		}
	}
	return oneMessage(ctx, q, `m.n = ?`, n)
}

// deliver gives a message the next place in its thread and in the inbox of its
// recipient.
func deliver(ctx context.Context, q *statements, n int64) error {
	_, err := q.exec(ctx, `UPDATE message AS m SET
		seq      = (SELECT coalesce(max(seq), 0) + 1 FROM message t WHERE t.low = m.low AND t.high = m.high),
		position = (SELECT coalesce(max(position), 0) + 1 FROM message t WHERE t.recipient = m.recipient)
		WHERE n = ?`, n)
	if err != nil {
		return fmt.Errorf("deliver message: %w", err)
	}
	return nil
}

// Sent implements [federation.Registry].
func (s *SQLite) Sent(ctx context.Context, from, id string, since time.Time) (federation.Message, error) {
	m, err := oneMessage(ctx, s.reads, `m.id = ? AND m.sender = ? AND m.received >= ?
		ORDER BY m.n DESC LIMIT 1`, id, from, stamp(since))
	if err != nil {
		return federation.Message{}, fmt.Errorf("look up message sent by %s: %w", from, err)
	}
	return m, nil
}

// Named implements [federation.Registry]. Of several it returns the one that came
// last.
func (s *SQLite) Named(ctx context.Context, handle, id string) (federation.Message, error) {
	m, err := oneMessage(ctx, s.reads, `m.id = ?1 AND (m.sender = ?2 OR m.recipient = ?2 AND m.seq IS NOT NULL)
		ORDER BY m.n DESC LIMIT 1`, id, handle)
	if err != nil {
		return federation.Message{}, fmt.Errorf("look up message of %s: %w", handle, err)
	}
	return m, nil
}

// Inbox implements [federation.Registry].
func (s *SQLite) Inbox(ctx context.Context, to string, after federation.Cursor, limit int) (messages []federation.Message, more bool, err error) {
	inbox, limit := handleInbox(to), max(limit, 0)
	n, err := s.position(ctx, inbox, after, `SELECT coalesce(max(position), 0) FROM message WHERE recipient = ?`)
	if err != nil {
		return nil, false, fmt.Errorf("read inbox of %s: %w", to, err)
	}
	scan := func(row scanner) (federation.Message, error) {
		var m messageScan
		var n uint64
		if err := row.Scan(append(m.dest(), &n)...); err != nil {
			return federation.Message{}, err
		}
		m.message.Cursor = inbox.cursor(n)
		return m.read()
	}
	messages, err = rows(ctx, s.reads, scan, `SELECT `+messageColumns+`, m.position FROM message m
		WHERE m.recipient = ? AND m.position > ? ORDER BY m.position LIMIT ?`, to, n, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read inbox of %s: %w", to, err)
	}
	if more = len(messages) > limit; more {
		messages = messages[:limit]
	}
	return messages, more, nil
}
