package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Inbox implements [federation.Registry].
func (s *Record) Inbox(ctx context.Context, to string, after federation.Cursor, limit int) (messages []agents.Message, more bool, err error) {
	inbox, limit := handleInbox(to), max(limit, 0)
	n, err := s.position(ctx, inbox, after, `SELECT coalesce(max(position), 0) FROM message WHERE recipient = ?`)
	if err != nil {
		return nil, false, fmt.Errorf("read inbox of %s: %w", to, err)
	}
	messages, err = s.messages(ctx, inbox, `message m WHERE m.recipient = ? AND m.position > ? AND m.deleted = 0
		ORDER BY m.position`+atMost, to, n, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read inbox of %s: %w", to, err)
	}
	messages, more = page(messages, limit)
	return messages, more, nil
}

// Unshown implements [federation.Registry].
func (s *Record) Unshown(ctx context.Context, to, from string) (u federation.InboxUse, err error) {
	err = s.reads.row(ctx, `SELECT count(*), coalesce(sum(length(m.envelope)), 0),
			count(*) FILTER (WHERE m.sender = ?1), coalesce(sum(length(m.envelope)) FILTER (WHERE m.sender = ?1), 0)
		FROM agent a JOIN message m ON m.recipient = a.handle AND (m.position > a.shown OR m.position IS NULL)
		WHERE a.handle = ?2 AND m.event IS NULL AND m.deleted = 0`, []any{from, to}, &u.Entries, &u.Bytes, &u.SenderEntries, &u.SenderBytes)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.InboxUse{}, fmt.Errorf("count messages for %s: %w", to, err)
	}
	return u, nil
}

// Show implements [federation.Registry]. Who polls is handed the same page over and
// over, which is not worth a write each time.
func (s *Record) Show(ctx context.Context, to string, upTo federation.Cursor) error {
	var n uint64
	if err := handleInbox(to).parse(upTo, &n); err != nil {
		return fmt.Errorf("note what %s was shown: %w", to, err)
	}
	var shown uint64
	err := s.reads.row(ctx, `SELECT shown FROM agent WHERE handle = ?`, []any{to}, &shown)
	if errors.Is(err, federation.ErrNotFound) || err == nil && shown >= n {
		return nil
	}
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, q *statements) error {
			_, err := q.exec(ctx, `UPDATE agent SET shown = max(shown, ?) WHERE handle = ?`, n, to)
			return err
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

// Thread implements [federation.Registry].
func (s *Record) Thread(ctx context.Context, handle, peer string, after uint64, limit int) (messages []agents.Message, more bool, err error) {
	limit = max(limit, 0)
	after = min(after, math.MaxInt64) // SQLite has no larger number, and no thread either
	messages, err = rows(ctx, s.reads, scanMessage, `SELECT `+messageColumns+` FROM message m
		WHERE m.low = ? AND m.high = ? AND m.seq > ? AND NOT (m.deleted = 1 AND m.recipient = ?)
		ORDER BY m.seq`+atMost, min(handle, peer), max(handle, peer), after, handle, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read thread of %s and %s: %w", handle, peer, err)
	}
	messages, more = page(messages, limit)
	return messages, more, nil
}

// MarkRead implements [federation.Registry]. Of several it marks the one that came
// last.
func (s *Record) MarkRead(ctx context.Context, handle, id string, now time.Time) error {
	if err := s.mark(ctx, handle, id, `read = coalesce(read, ?3)`, stamp(now)); err != nil {
		return err
	}
	m, err := s.Named(ctx, handle, id)
	if err != nil || m.Event.IsZero() {
		return err
	}
	return s.HandOut(ctx, handle, []federation.EventID{m.Event}, now)
}

// Delete implements [federation.Registry]. Of several it deletes the one that came
// last. The row stays: its place in the thread and its ID are used, and its step
// must not come again.
func (s *Record) Delete(ctx context.Context, handle, id string) error {
	return s.mark(ctx, handle, id, `deleted = 1`)
}

// mark changes the newest message with an id in the inbox of a handle.
func (s *Record) mark(ctx context.Context, handle, id, change string, args ...any) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		changed, err := q.exec(ctx, `UPDATE message SET `+change+` WHERE n = (SELECT n FROM message
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

// Shown implements [federation.Registry].
func (s *Record) Shown(ctx context.Context, id federation.HandoffID) ([]string, error) {
	handles, err := rows(ctx, s.reads, scanOne[string], `SELECT DISTINCT recipient FROM message WHERE handoff = ? ORDER BY recipient`, id.String())
	if err != nil {
		return nil, fmt.Errorf("look up who was sent %s: %w", id, err)
	}
	return handles, nil
}
