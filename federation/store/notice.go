package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"baton/federation"
)

// Notify implements [federationtest.Notices].
func (s *Record) Notify(ctx context.Context, n federation.Notice) error {
	body, err := encodeNotice(n)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, q *statements) error { return putNotice(ctx, q, n, body) })
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

// putNotice files a notice, unless its signer was to be told that before.
func putNotice(ctx context.Context, q *statements, n federation.Notice, body string) error {
	return putNoticeOn(ctx, q, n.Link(), n, body)
}

func putNoticeOn(ctx context.Context, q *statements, link string, n federation.Notice, body string) error {
	_, err := q.exec(ctx, `INSERT INTO notice (link, signer, reader, event, kind, at, body) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		link, signerOf(n), n.Reader(), n.About().String(), string(n.Kind), stamp(n.At), body)
	return err
}

// signerOf returns the DID that scopes the id in a notice.
func signerOf(n federation.Notice) federation.DID {
	if n.Kind == federation.NoticeDisabled {
		return n.Webhook.DID
	}
	return n.Event.From
}

// noteDisabled files the notice to the owner of a disabled webhook, also where the webhook
// was disabled before.
func (s *Record) noteDisabled(ctx context.Context, q *statements, id federation.WebhookID, now time.Time) error {
	h, err := oneWebhook(ctx, q, id)
	if err != nil {
		return err
	}
	n := federation.Notice{Kind: federation.NoticeDisabled, Webhook: h, Why: h.Why, At: now}
	body, err := encodeNotice(n)
	if err != nil {
		return err
	}
	link := ""
	if s.tables != nil {
		if link, err = s.tables.Notifier(ctx, Tx{q}, h.DID); err != nil {
			return err
		}
	}
	if _, err := q.exec(ctx, `DELETE FROM notice WHERE signer = ? AND event = ? AND kind = ?`, h.DID, id.String(), string(n.Kind)); err != nil {
		return err
	}
	return putNoticeOn(ctx, q, cmp.Or(link, federation.InboxLink), n, body)
}

func noticesTo(reader federation.DID) inboxRef { return newInboxRef("notices", string(reader)) }

// scanNotice reads a notice to a reader: its place, and what it says.
func scanNotice(reader federation.DID) func(scanner) (federation.Notice, error) {
	return func(row scanner) (n federation.Notice, err error) {
		var place uint64
		var body []byte
		if err := row.Scan(&place, &body); err != nil {
			return n, err
		}
		n.Cursor = noticesTo(reader).cursor(place)
		return n, json.Unmarshal(body, &n)
	}
}

// NoticesTo implements [federationtest.Notices].
func (s *Record) NoticesTo(ctx context.Context, link string, to federation.DID, after federation.Cursor, limit int) ([]federation.Notice, error) {
	var place uint64
	err := noticesTo(to).parse(after, &place)
	var found []federation.Notice
	if err == nil {
		found, err = rows(ctx, s.reads, scanNotice(to), `SELECT n, body FROM notice WHERE reader = ? AND link = ? AND n > ? ORDER BY n`+atMost,
			to, link, place, max(limit, 0))
	}
	if err != nil {
		return nil, fmt.Errorf("read notices to %s: %w", to, err)
	}
	return found, nil
}

// Untold implements [federationtest.Notices].
func (s *Record) Untold(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error) {
	scan := func(row scanner) (n federation.Notice, err error) {
		var body []byte
		if err := row.Scan(&body); err != nil {
			return n, err
		}
		return n, json.Unmarshal(body, &n)
	}
	found, err := rows(ctx, s.reads, scan, `SELECT body FROM notice WHERE link = ? AND told = 0 AND next <= ? ORDER BY n`+atMost, link, stamp(now), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read notices for %s: %w", link, err)
	}
	return found, nil
}

// Told implements [federationtest.Notices].
func (s *Record) Told(ctx context.Context, n federation.Notice) error {
	return s.changeNotice(ctx, n, `UPDATE notice SET told = ? WHERE signer = ? AND event = ? AND kind = ?`, 1)
}

// TellLater implements [federationtest.Notices].
func (s *Record) TellLater(ctx context.Context, n federation.Notice, next time.Time) error {
	return s.changeNotice(ctx, n, `UPDATE notice SET next = ? WHERE signer = ? AND event = ? AND kind = ?`, stamp(next))
}

func (s *Record) changeNotice(ctx context.Context, n federation.Notice, change string, value int64) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, change, value, signerOf(n), n.About().String(), string(n.Kind))
		return err
	})
	if err != nil {
		return fmt.Errorf("write notice of %s: %w", n.About(), err)
	}
	return nil
}

// PruneNotices implements [federationtest.Notices].
func (s *Record) PruneNotices(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := written(ctx, s, func(ctx context.Context, q *statements) (int64, error) {
		return q.exec(ctx, `DELETE FROM notice WHERE n IN (SELECT n FROM notice WHERE at <= ? ORDER BY at, n`+atMost+`)`,
			stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("prune notices: %w", err)
	}
	return int(gone), nil
}
