package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"baton/federation"
)

// Notify implements [federation.Notices].
func (s *Record) Notify(ctx context.Context, n federation.Notice) error {
	body, err := encodeNotice(n)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, q *statements) error { return putNotice(ctx, q, n, body) })
	}
	if err != nil {
		return fmt.Errorf("file notice of %s: %w", n.Event.ID, err)
	}
	return nil
}

func encodeNotice(n federation.Notice) (string, error) {
	body, err := json.Marshal(n)
	return string(body), err
}

// putNotice files a notice, unless its signer was to be told that before.
func putNotice(ctx context.Context, q *statements, n federation.Notice, body string) error {
	_, err := q.exec(ctx, `INSERT INTO notice (link, signer, event, kind, at, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		n.Event.Arrival.Link, n.Event.From, n.Event.ID.String(), string(n.Kind), stamp(n.At), body)
	return err
}

// Untold implements [federation.Notices].
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

// Told implements [federation.Notices].
func (s *Record) Told(ctx context.Context, n federation.Notice) error {
	return s.changeNotice(ctx, n, `UPDATE notice SET told = ? WHERE signer = ? AND event = ? AND kind = ?`, 1)
}

// TellLater implements [federation.Notices].
func (s *Record) TellLater(ctx context.Context, n federation.Notice, next time.Time) error {
	return s.changeNotice(ctx, n, `UPDATE notice SET next = ? WHERE signer = ? AND event = ? AND kind = ?`, stamp(next))
}

func (s *Record) changeNotice(ctx context.Context, n federation.Notice, change string, value int64) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, change, value, n.Event.From, n.Event.ID.String(), string(n.Kind))
		return err
	})
	if err != nil {
		return fmt.Errorf("write notice of %s: %w", n.Event.ID, err)
	}
	return nil
}

// PruneNotices implements [federation.Notices].
func (s *Record) PruneNotices(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := written(ctx, s, func(ctx context.Context, q *statements) (int64, error) {
		return q.exec(ctx, `DELETE FROM notice WHERE n IN (SELECT n FROM notice WHERE at <= ? ORDER BY at`+atMost+`)`,
			stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("prune notices: %w", err)
	}
	return int(gone), nil
}
