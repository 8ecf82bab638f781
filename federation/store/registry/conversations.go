package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/inboxes"
)

// messages reads the messages that a query of the columns of a message and a position
// finds.
func (s *Registry) messages(ctx context.Context, inbox inboxes.Positions, query string, args ...any) ([]agents.Message, error) {
	scan := func(row engine.Scanner) (agents.Message, error) {
		var m messageScan
		var n uint64
		if err := row.Scan(append(m.dest(), &n)...); err != nil {
			return agents.Message{}, err
		}
		m.message.Cursor = inbox.At(n)
		return m.read()
	}
	return engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+messageColumns+`, m.position FROM `+query, args...)
}

// Fresh implements the port Mail of bridge/airc.
func (s *Registry) Fresh(ctx context.Context, to string, limit int) ([]agents.Message, error) {
	fresh, err := s.messages(ctx, positions(to), `agent a JOIN message m ON m.recipient = a.handle AND m.position > a.shown
		WHERE a.handle = ? AND m.deleted = 0 ORDER BY m.position`+engine.AtMost, to, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read new messages of %s: %w", to, err)
	}
	return fresh, nil
}

// Since implements the port Mail of bridge/airc.
func (s *Registry) Since(ctx context.Context, to string, since time.Time, limit int) ([]agents.Message, error) {
	messages, err := s.messages(ctx, positions(to), `message m WHERE m.recipient = ? AND m.told > ? AND m.deleted = 0
		ORDER BY m.told, m.position`+engine.AtMost, to, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read messages of %s: %w", to, err)
	}
	return messages, nil
}

// Recent implements the port Threads of bridge/airc.
func (s *Registry) Recent(ctx context.Context, handle, peer string, limit int) ([]agents.Message, error) {
	messages, err := engine.Rows(ctx, s.db.Reads(), scanMessage, `SELECT `+messageColumns+` FROM message m
		WHERE m.low = ? AND m.high = ? AND m.seq IS NOT NULL AND m.deleted < 2 AND NOT (m.deleted = 1 AND m.recipient = ?) ORDER BY m.seq DESC`+engine.AtMost,
		min(handle, peer), max(handle, peer), handle, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read conversation of %s and %s: %w", handle, peer, err)
	}
	slices.Reverse(messages)
	return messages, nil
}

// Conversations implements the port Threads of bridge/airc.
func (s *Registry) Conversations(ctx context.Context, handle string, limit int) ([]agents.Conversation, error) {
	scan := func(row engine.Scanner) (agents.Conversation, error) {
		var c agents.Conversation
		var m messageScan
		if err := row.Scan(append(m.dest(), &c.With, &c.Count, &c.Unread)...); err != nil {
			return c, err
		}
		var err error
		c.Last, err = m.read()
		return c, err
	}
	all, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+messageColumns+`, peer, count, unread FROM (
			SELECT peer, count(*) AS count, count(*) FILTER (WHERE recipient = ?1 AND read IS NULL) AS unread, max(seq) AS last FROM (
				SELECT high AS peer, recipient, read, seq, deleted FROM message WHERE low = ?1 AND seq IS NOT NULL
				UNION ALL
				SELECT low AS peer, recipient, read, seq, deleted FROM message WHERE high = ?1 AND low <> ?1 AND seq IS NOT NULL
			) both_sides WHERE deleted < 2 AND NOT (deleted = 1 AND recipient = ?1) GROUP BY peer
		) threads JOIN message m ON m.low = min(?1, peer) AND m.high = max(?1, peer) AND m.seq = last
		ORDER BY m.told DESC, peer`+engine.AtMost, handle, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read conversations of %s: %w", handle, err)
	}
	return all, nil
}

// ReadConversation implements the port Threads of bridge/airc. A reader that polls gets the
// same messages again and again, so only a change costs a write.
func (s *Registry) ReadConversation(ctx context.Context, handle, peer string, now time.Time) error {
	const unread = `low = ?1 AND high = ?2 AND recipient = ?3 AND seq IS NOT NULL AND read IS NULL`
	args := []any{min(handle, peer), max(handle, peer), handle}
	var some bool
	err := s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM message WHERE `+unread+`)`, args, &some)
	if err == nil && some {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			return q.Put(ctx, `UPDATE message SET read = ?4 WHERE `+unread, append(args, engine.Stamp(now))...)
		})
	}
	if err != nil {
		return fmt.Errorf("note conversation of %s and %s as read: %w", handle, peer, err)
	}
	return nil
}
