// Package store is the record of a home, in an SQLite file or on PostgreSQL. It implements the
// ports of the pure packages of federation, and calls a network's own [engine.Tables]. It does not
// judge steps; package home does this first.
//
// [Open] and [OpenPostgres] return a [Record]. Each subject has its own package, whose methods are
// promoted to the Record:
//
//   - handoffs: logs, views, lists, evidence, and deferred and pending steps
//   - inboxes: entries for a DID, its devices, leases and notices
//   - journals: lists of entries appended by links, such as session histories
//   - deliveries: pending and ended deliveries, and dead letters
//   - participants: bindings, keys, sessions
//   - homes: other homes, and the locations of mailboxes
//   - operators: decisions and views of operators
//
// Methods that change several subjects are in this package.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/deliveries"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/homes"
	"github.com/baton-gateway/baton/federation/store/inboxes"
	"github.com/baton-gateway/baton/federation/store/journals"
	"github.com/baton-gateway/baton/federation/store/operators"
	"github.com/baton-gateway/baton/federation/store/participants"
)

// Record is one open record. All methods are safe for concurrent use, and block on the disk. After
// a nil error, a change survives a power failure. Each method returns an error wrapping
// [*federation.UnavailableError] if the disk cannot be written or read now.
type Record struct {
	*handoffs.Logs
	*inboxes.Inboxes
	*journals.Journals
	*deliveries.Outboxes
	*participants.Participants
	*homes.Homes
	*operators.Operators

	db      *engine.DB
	keyRows engine.Known[keyRow]
}

// Open opens the record at a path, like [engine.Open].
func Open(ctx context.Context, path string, tables engine.Tables, reg prometheus.Registerer, options ...engine.Option) (*Record, error) {
	db, err := engine.Open(ctx, path, tables, reg, options...)
	if err != nil {
		return nil, err
	}
	r := record(db)
	for _, kind := range []federation.DestinationKind{federation.ToPeer, federation.ToWebhook} {
		_ = r.EndLeases(ctx, kind) // on an error, each lease expires
	}
	return r, nil
}

// OpenPostgres opens the record in a PostgreSQL database, like [engine.OpenPostgres].
func OpenPostgres(ctx context.Context, dsn string, tables engine.Tables, reg prometheus.Registerer, options ...engine.Option) (*Record, error) {
	db, err := engine.OpenPostgres(ctx, dsn, tables, reg, options...)
	if err != nil {
		return nil, err
	}
	return record(db), nil
}

func record(db *engine.DB) *Record {
	return &Record{
		Logs:         handoffs.New(db),
		Inboxes:      inboxes.New(db),
		Journals:     journals.New(db),
		Outboxes:     deliveries.New(db),
		Participants: participants.New(db),
		Homes:        homes.New(db),
		Operators:    operators.New(db),
		db:           db,
	}
}

// Ready is [engine.DB.Ready].
func (s *Record) Ready(ctx context.Context) error { return s.db.Ready(ctx) }

// RunExclusive is [engine.DB.RunExclusive].
func (s *Record) RunExclusive(ctx context.Context, name string, do func(context.Context)) error {
	return s.db.RunExclusive(ctx, name, do)
}

// OnFiled is [engine.DB.OnFiled].
func (s *Record) OnFiled(wake func(destination string)) { s.db.OnFiled(wake) }

// Close is [engine.DB.Close].
func (s *Record) Close() error { return s.db.Close() }

// NewestFiled returns the filing time of the newest step; zero for an empty record.
func (s *Record) NewestFiled(ctx context.Context) (time.Time, error) {
	var filed int64
	err := s.db.Reads().Row(ctx, `SELECT filed FROM event ORDER BY seq DESC LIMIT 1`, nil, &filed)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read the newest step: %w", err)
	}
	return engine.Moment(filed), nil
}

// Delay files a [federation.NoticeDelayed] for up to limit rows filed at or before a given time
// without one, and returns their number. The rows include unread steps in an inbox without another
// route to its reader (see [federation.InboxLink]).
func (s *Record) Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	delayed, err = s.Outboxes.Delay(ctx, before, now, limit)
	if err != nil || delayed == limit {
		return delayed, err
	}
	if s.db.Tables != nil {
		unfetched, err := s.db.Tables.Delay(ctx, before, now, limit-delayed)
		if delayed += unfetched; err != nil || delayed == limit {
			return delayed, err
		}
	}
	entries, err := s.Inboxes.Delay(ctx, before, now, limit-delayed)
	return delayed + entries, err
}

// Expire abandons up to limit rows of any link filed at or before a given time, and returns their
// number. A step not fetched by an agent becomes [federation.DeliveryExpired].
func (s *Record) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	expired, err = s.Outboxes.Expire(ctx, before, now, limit)
	if err != nil || expired == limit || s.db.Tables == nil {
		return expired, err
	}
	unfetched, err := s.db.Tables.Expire(ctx, before, now, limit-expired)
	return expired + unfetched, err
}

// Decisions do not change. Above [federation.MaxContacts] strangers nothing is recorded, and
// further senders stay unknown.
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

func fullOf(ctx context.Context, q engine.Tx, person federation.DID, sort string) (bool, error) {
	var n int
	err := q.Row(ctx, `SELECT count(*) FROM contact WHERE person = ? AND `+sort, []any{person}, &n)
	if err != nil {
		return false, fmt.Errorf("count contacts: %w", err)
	}
	return n >= federation.MaxContacts, nil
}

// SetContact stores a participant's decision about a sender of messages, or returns
// [federation.ErrTooManyContacts] at the limit.
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

// Contact returns a participant's decision about a sender of messages.
func (s *Record) Contact(ctx context.Context, person, sender federation.DID) (federation.ContactState, error) {
	var state federation.ContactState
	err := s.db.Reads().Row(ctx, `SELECT state FROM contact WHERE person = ? AND sender = ?`, []any{person, sender}, &state)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return "", fmt.Errorf("read contact of %s: %w", person, err)
	}
	return state, nil
}

// ContactsOf returns up to limit senders after a DID, in order: senders that wrote to a
// participant, or were allowed or blocked by it.
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
