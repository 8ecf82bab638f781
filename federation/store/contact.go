package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// introduce notes that a sender wrote to a participant for the first time. It changes no decision.
// Beyond [federation.MaxContacts] strangers it notes nothing, and each of them stays unknown.
func introduce(ctx context.Context, q engine.Tx, c federation.Contact, now time.Time) error {
	full, err := fullOf(ctx, q, c.Person, `state = 'introduced'`)
	if err != nil || full {
		return err
	}
	err = q.Put(ctx, `INSERT INTO contact (person, sender, state, since) VALUES (?, ?, ?, ?) ON CONFLICT (person, sender) DO NOTHING`,
		c.Person, c.Sender, string(federation.ContactIntroduced), engine.Stamp(now))
	if err != nil {
		return fmt.Errorf("write contact: %w", err)
	}
	return nil
}

// fullOf reports whether a participant has as many contacts of one sort as it may have.
func fullOf(ctx context.Context, q engine.Tx, person federation.DID, sort string) (bool, error) {
	var n int
	err := q.Row(ctx, `SELECT count(*) FROM contact WHERE person = ? AND `+sort, []any{person}, &n)
	if err != nil {
		return false, fmt.Errorf("count contacts: %w", err)
	}
	return n >= federation.MaxContacts, nil
}

// SetContact notes what a participant decided about a sender of messages. It returns
// [federation.ErrTooManyContacts] for one sender more than a participant may decide about.
func (s *Record) SetContact(ctx context.Context, c federation.Contact, now time.Time) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `UPDATE contact SET state = ?, since = ? WHERE person = ? AND sender = ? AND state <> 'introduced'`,
			string(c.State), engine.Stamp(now), c.Person, c.Sender)
		if err != nil || n > 0 {
			return err
		}
		full, err := fullOf(ctx, q, c.Person, `state <> 'introduced'`)
		if err == nil && full {
			err = federation.ErrTooManyContacts
		}
		if err != nil {
			return err
		}
		return q.Put(ctx, `INSERT INTO contact (person, sender, state, since) VALUES (?, ?, ?, ?)
			ON CONFLICT (person, sender) DO UPDATE SET state = excluded.state, since = excluded.since`, c.Person, c.Sender, string(c.State), engine.Stamp(now))
	})
	if err != nil {
		return fmt.Errorf("write contact of %s: %w", c.Person, err)
	}
	return nil
}

// Contact returns what a participant decided about a sender of messages.
func (s *Record) Contact(ctx context.Context, person, sender federation.DID) (federation.ContactState, error) {
	var state federation.ContactState
	err := s.db.Reads().Row(ctx, `SELECT state FROM contact WHERE person = ? AND sender = ?`, []any{person, sender}, &state)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return "", fmt.Errorf("read contact of %s: %w", person, err)
	}
	return state, nil
}

// ContactsOf returns up to limit senders that wrote to a participant, or that it allowed or
// blocked, in the order of their DIDs, after one.
func (s *Record) ContactsOf(ctx context.Context, person, after federation.DID, limit int) ([]federation.Contact, error) {
	scan := func(row engine.Scanner) (federation.Contact, error) {
		c := federation.Contact{Person: person}
		var since int64
		err := row.Scan(&c.Sender, &c.State, &since)
		c.Since = engine.Moment(since)
		return c, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT sender, state, since FROM contact WHERE person = ? AND sender > ? ORDER BY sender`+engine.AtMost,
		person, after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read contacts of %s: %w", person, err)
	}
	return found, nil
}
