package inboxes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// Notify files a notice, unless a notice of its kind about the step is already filed. The ports
// that end deliveries file their notices themselves.
func (s *Inboxes) Notify(ctx context.Context, n federation.Notice) error {
	body, err := encodeNotice(n)
	if err == nil {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return fileNotice(ctx, q, n, body) })
	}
	if err != nil {
		return fmt.Errorf("file notice of %s: %w", n.About(), err)
	}
	return nil
}

func encodeNotice(n federation.Notice) (string, error) {
	body, err := json.Marshal(n)
	return string(body), err
}

func fileNotice(ctx context.Context, q engine.Tx, n federation.Notice, body string) error {
	return fileNoticeOn(ctx, q, n.Link(), n, body)
}

// NoteOn files a notice for a link to send, unless the same notice is already filed.
func NoteOn(ctx context.Context, q engine.Tx, link string, n federation.Notice) error {
	body, err := encodeNotice(n)
	if err != nil {
		return err
	}
	return fileNoticeOn(ctx, q, link, n, body)
}

// fileNoticeOn also queues the notice for its reader. It queues a notice that the reader reads
// from the record for the webhooks of the inbox of the reader too.
func fileNoticeOn(ctx context.Context, q engine.Tx, link string, n federation.Notice, body string) error {
	const insert = `INSERT INTO notice (link, signer, reader, event, kind, at, body) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	row := []any{link, signerOf(n), n.Reader(), n.About().String(), string(n.Kind), engine.Stamp(n.At), body}
	item := queue.Row{Queued: engine.Stamp(n.At)}
	var called bool
	err := q.Row(ctx, insert+` RETURNING n, coalesce(body -> 'event' ->> 'handoff', event), `+queue.HasInbox(`notice.reader`), row, &item.Item, &item.Lane, &called)
	if errors.Is(err, federation.ErrNotFound) {
		return nil // already filed
	}
	if err != nil {
		return err
	}
	return queue.PushNotice(ctx, q, link, n.Reader(), signerOf(n), item, called && link == federation.InboxLink)
}

// DropNotices deletes the notices selected by a condition on notice, with their deliveries. It
// returns the number of notices.
func DropNotices(ctx context.Context, q engine.Tx, which string, args ...any) (int, error) {
	gone, err := engine.Rows(ctx, q, engine.ScanOne[int64], `DELETE FROM notice WHERE `+which+` RETURNING n`, args...)
	for _, n := range gone {
		if err == nil {
			err = queue.Drop(ctx, q, n+queue.FirstNotice)
		}
	}
	return len(gone), err
}

// DropNotice deletes a notice with its deliveries.
func DropNotice(ctx context.Context, q engine.Tx, n int64) error {
	_, err := DropNotices(ctx, q, `n = ?1`, n)
	return err
}

// The ID in a notice is unique only per signer.
func signerOf(n federation.Notice) federation.DID {
	if n.Kind == federation.NoticeDisabled {
		return n.Webhook.DID
	}
	return n.Row().From
}

// NoticePositions returns the positions in the notices to a reader.
func NoticePositions(reader federation.DID) Positions { return PositionsOf("notices", string(reader)) }

func scanNotice(reader federation.DID) func(engine.Scanner) (federation.Notice, error) {
	return func(row engine.Scanner) (n federation.Notice, err error) {
		var place uint64
		var body []byte
		if err := row.Scan(&place, &body); err != nil {
			return n, err
		}
		n.Cursor = NoticePositions(reader).At(place)
		return n, federation.DecodeJSON(body, &n)
	}
}

// NoticesTo returns up to limit notices of a link to a reader after a cursor, oldest first,
// delivered or not. The zero cursor is the start. It returns [federation.ErrUnknownCursor] for a
// cursor of another reader.
func (s *Inboxes) NoticesTo(ctx context.Context, link string, to federation.DID, after federation.Cursor, limit int) ([]federation.Notice, error) {
	var place uint64
	err := NoticePositions(to).Parse(after, &place)
	var found []federation.Notice
	if err == nil {
		found, err = engine.Rows(ctx, s.db.Reads(), scanNotice(to), `SELECT n, body FROM notice WHERE reader = ? AND link = ? AND n > ? ORDER BY n`+engine.AtMost,
			to, link, place, max(limit, 0))
	}
	if err != nil {
		return nil, fmt.Errorf("read notices to %s: %w", to, err)
	}
	return found, nil
}

// EndNotice ends the delivery of a notice to its reader. The next notice of the reader becomes due.
func EndNotice(ctx context.Context, q engine.Tx, to, item int64, how federation.Settlement) error {
	var lane string
	err := q.Row(ctx, `UPDATE delivery SET state = ?, next = NULL, ended = ?, reason = ?, code = ? WHERE item = ? AND destination = ? AND state = 'waiting' RETURNING lane`,
		[]any{string(how.Outcome()), engine.Stamp(how.At), how.Why, how.Code, item, to}, &lane)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return queue.Advance(ctx, q, to, lane)
}

// PruneNotices deletes up to limit notices filed at or before a given time, delivered or not.
func (s *Inboxes) PruneNotices(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		return DropNotices(ctx, q, `n IN (SELECT n FROM notice WHERE at <= ? ORDER BY at, n`+engine.AtMost+`)`, engine.Stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("prune notices: %w", err)
	}
	return gone, nil
}

// NoteStep files a notice about a step or a message of the record. It files none about a receipt or
// an unreadable step, because neither has a signer to notify.
func NoteStep(ctx context.Context, q engine.Tx, row int64, n federation.Notice) error {
	var e handoffs.EntryScan
	err := q.Row(ctx, `SELECT `+handoffs.EntryColumns+` FROM event e WHERE e.seq = ? AND (e.version IS NOT NULL OR e.state = 'said')`, []any{row}, e.Dest()...)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	entry, err := e.Read()
	if err != nil {
		return nil //nolint:nilerr // one bad row stops no other; baton verify reports it
	}
	if entry.Text != nil && entry.Text.InChannel() {
		return nil // a channel line has no particular recipient
	}
	n.Event, n.Text = entry.Event, entry.Text
	body, err := encodeNotice(n)
	if err != nil {
		return err
	}
	return fileNotice(ctx, q, n, body)
}
