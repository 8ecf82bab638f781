package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/inboxes"
)

// Inbox implements the port Mail of bridge/airc.
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

// position returns where a cursor is in the inbox of a handle: a position beyond the newest
// one was never given out.
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

// Unshown implements the port Mail of bridge/airc.
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

// Show implements the port Mail of bridge/airc. A reader that polls gets the same page again
// and again, so only a change costs a write.
func (s *Registry) Show(ctx context.Context, to string, upTo federation.Cursor) error {
	var n uint64
	if err := positions(to).Parse(upTo, &n); err != nil {
		return fmt.Errorf("note what %s was shown: %w", to, err)
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
		return fmt.Errorf("note what %s was shown: %w", to, err)
	}
	return nil
}

// page cuts off what was read beyond a limit to see whether there is more.
func page(messages []agents.Message, limit int) ([]agents.Message, bool) {
	return messages[:min(limit, len(messages))], len(messages) > limit
}

// Thread implements the port Threads of bridge/airc.
func (s *Registry) Thread(ctx context.Context, handle, peer string, after uint64, limit int) (messages []agents.Message, more bool, err error) {
	limit = max(limit, 0)
	after = min(after, math.MaxInt64) // SQLite has no larger number, and no thread either
	messages, err = engine.Rows(ctx, s.db.Reads(), scanMessage, `SELECT `+messageColumns+` FROM message m
		WHERE m.low = ? AND m.high = ? AND m.seq > ? AND m.deleted < 2 AND NOT (m.deleted = 1 AND m.recipient = ?)
		ORDER BY m.seq`+engine.AtMost, min(handle, peer), max(handle, peer), after, handle, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read thread of %s and %s: %w", handle, peer, err)
	}
	messages, more = page(messages, limit)
	return messages, more, nil
}

// MarkRead implements the port Messages of bridge/airc. Of several it marks the one that came
// last.
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

// Delete implements the port Messages of bridge/airc. Of several it deletes the one that came
// last. The row stays: its place in the thread and its ID are used, and its step
// must not come again.
func (s *Registry) Delete(ctx context.Context, handle, id string) error {
	return s.mark(ctx, handle, id, `deleted = 1`)
}

// mark changes the newest message with an id in the inbox of a handle.
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

// Shown implements the port Messages of bridge/airc.
func (s *Registry) Shown(ctx context.Context, id federation.HandoffID) ([]string, error) {
	handles, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT DISTINCT recipient FROM message WHERE handoff = ? ORDER BY recipient`, id.String())
	if err != nil {
		return nil, fmt.Errorf("look up the recipients of %s: %w", id, err)
	}
	return handles, nil
}
