package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/inboxes"
)

// Inbox implements Mail of bridge/airc.
func (s *Registry) Inbox(ctx context.Context, to string, after federation.Cursor, limit int) (messages []agents.Message, more bool, err error) {
	inbox, limit := positions(to), max(limit, 0)
	n, err := s.position(ctx, inbox, to, after)
	if err != nil {
		return nil, false, fmt.Errorf("read inbox of %s: %w", to, err)
	}
	messages, err = s.messages(ctx, inbox, `message m WHERE m.recipient = ? AND m.position > ? AND m.deleted = 0
		ORDER BY m.position`+engine.AtMost, to, n, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read inbox of %s: %w", to, err)
	}
	messages, more = page(messages, limit)
	return messages, more, nil
}

// A cursor beyond the newest position is unknown.
func (s *Registry) position(ctx context.Context, inbox inboxes.Positions, handle string, after federation.Cursor) (n uint64, err error) {
	if err := inbox.Parse(after, &n); err != nil || n == 0 {
		return 0, err
	}
	var newest uint64
	err = s.db.Reads().Row(ctx, `SELECT coalesce(max(position), 0) FROM message WHERE recipient = ?`, []any{handle}, &newest)
	if err == nil && n > newest {
		err = federation.ErrUnknownCursor
	}
	return n, err
}

// Unshown implements Mail of bridge/airc.
func (s *Registry) Unshown(ctx context.Context, to, from string) (u federation.InboxUse, err error) {
	err = s.db.Reads().Row(ctx, `SELECT count(*), coalesce(sum(length(m.envelope)), 0),
			count(*) FILTER (WHERE m.sender = ?1), coalesce(sum(length(m.envelope)) FILTER (WHERE m.sender = ?1), 0)
		FROM agent a JOIN message m ON m.recipient = a.handle AND (m.position > a.shown OR m.position IS NULL)
		WHERE a.handle = ?2 AND m.event IS NULL AND m.deleted = 0`, []any{from, to}, &u.Entries, &u.Bytes, &u.SenderEntries, &u.SenderBytes)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.InboxUse{}, fmt.Errorf("count messages for %s: %w", to, err)
	}
	return u, nil
}

// Show implements Mail of bridge/airc. Only a change causes a write.
func (s *Registry) Show(ctx context.Context, to string, upTo federation.Cursor) error {
	var n uint64
	if err := positions(to).Parse(upTo, &n); err != nil {
		return fmt.Errorf("mark messages shown to %s: %w", to, err)
	}
	var shown uint64
	err := s.db.Reads().Row(ctx, `SELECT shown FROM agent WHERE handle = ?`, []any{to}, &shown)
	if errors.Is(err, federation.ErrNotFound) || err == nil && shown >= n {
		return nil
	}
	if err == nil {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			return q.Put(ctx, `UPDATE agent SET shown = max(shown, ?) WHERE handle = ?`, n, to)
		})
	}
	if err != nil {
		return fmt.Errorf("mark messages shown to %s: %w", to, err)
	}
	return nil
}

func page(messages []agents.Message, limit int) ([]agents.Message, bool) {
	return messages[:min(limit, len(messages))], len(messages) > limit
}

// Thread implements Threads of bridge/airc.
func (s *Registry) Thread(ctx context.Context, handle, peer string, after uint64, limit int) (messages []agents.Message, more bool, err error) {
	limit = max(limit, 0)
	after = min(after, math.MaxInt64) // the largest number in SQLite
	messages, err = engine.Rows(ctx, s.db.Reads(), scanMessage, `SELECT `+messageColumns+` FROM message m
		WHERE m.low = ? AND m.high = ? AND m.seq > ? AND m.deleted < 2 AND NOT (m.deleted = 1 AND m.recipient = ?)
		ORDER BY m.seq`+engine.AtMost, min(handle, peer), max(handle, peer), after, handle, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read thread of %s and %s: %w", handle, peer, err)
	}
	messages, more = page(messages, limit)
	return messages, more, nil
}

// MarkRead implements Messages of bridge/airc. Of several it marks the last one.
func (s *Registry) MarkRead(ctx context.Context, handle, id string, now time.Time) error {
	if err := s.mark(ctx, handle, id, `read = coalesce(read, ?3)`, engine.Stamp(now)); err != nil {
		return err
	}
	m, err := s.Named(ctx, handle, id)
	if err != nil || m.Event.IsZero() {
		return err
	}
	return s.HandOut(ctx, handle, []federation.EventID{m.Event}, now)
}

// Delete implements Messages of bridge/airc. Of several messages it deletes the last one. The row
// stays, because its position in the thread and its ID are in use, and its step must not be filed
// again.
func (s *Registry) Delete(ctx context.Context, handle, id string) error {
	return s.mark(ctx, handle, id, `deleted = 1`)
}

func (s *Registry) mark(ctx context.Context, handle, id, change string, args ...any) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		changed, err := q.Exec(ctx, `UPDATE message SET `+change+` WHERE n = (SELECT n FROM message
			WHERE id = ?2 AND recipient = ?1 AND position IS NOT NULL AND deleted = 0 ORDER BY n DESC LIMIT 1)`,
			append([]any{handle, id}, args...)...)
		if err == nil && changed == 0 {
			err = federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("mark message of %s: %w", handle, err)
	}
	return nil
}

// Shown implements Messages of bridge/airc.
func (s *Registry) Shown(ctx context.Context, id federation.HandoffID) ([]string, error) {
	handles, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT DISTINCT recipient FROM message WHERE handoff = ? ORDER BY recipient`, id.String())
	if err != nil {
		return nil, fmt.Errorf("look up the recipients of %s: %w", id, err)
	}
	return handles, nil
}

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

// Fresh implements Mail of bridge/airc.
func (s *Registry) Fresh(ctx context.Context, to string, limit int) ([]agents.Message, error) {
	fresh, err := s.messages(ctx, positions(to), `agent a JOIN message m ON m.recipient = a.handle AND m.position > a.shown
		WHERE a.handle = ? AND m.deleted = 0 ORDER BY m.position`+engine.AtMost, to, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read new messages of %s: %w", to, err)
	}
	return fresh, nil
}

// Since implements Mail of bridge/airc.
func (s *Registry) Since(ctx context.Context, to string, since time.Time, limit int) ([]agents.Message, error) {
	messages, err := s.messages(ctx, positions(to), `message m WHERE m.recipient = ? AND m.told > ? AND m.deleted = 0
		ORDER BY m.told, m.position`+engine.AtMost, to, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read messages of %s: %w", to, err)
	}
	return messages, nil
}

// Recent implements Threads of bridge/airc.
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

// Conversations implements Threads of bridge/airc.
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

// ReadConversation implements Threads of bridge/airc. Only a change causes a write.
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
