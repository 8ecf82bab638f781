package homes

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// MailboxLocation returns the kept location of the mailbox of a DID, or
// [federation.ErrNotFound].
func (s *Homes) MailboxLocation(ctx context.Context, did federation.DID) (federation.MailboxLocation, error) {
	found, err := s.mailboxes.Find(did, func() (federation.MailboxLocation, error) {
		r := federation.MailboxLocation{DID: did}
		var since int64
		err := s.db.Reads().Row(ctx, `SELECT home, source, since, origin FROM mailbox_location WHERE did = ?`, []any{did}, &r.Home, &r.Source, &since, &r.From)
		r.Since = engine.Moment(since)
		return r, err
	})
	if err != nil {
		return federation.MailboxLocation{}, fmt.Errorf("read mailbox location of %s: %w", did, err)
	}
	return found, nil
}

// KeepMailboxLocation replaces the kept location of the mailbox of a DID.
func (s *Homes) KeepMailboxLocation(ctx context.Context, r federation.MailboxLocation) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		q.Then(func() { s.mailboxes.Forget(r.DID) })
		return q.Put(ctx, `INSERT INTO mailbox_location (did, home, source, since, origin) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (did) DO UPDATE SET home = excluded.home, source = excluded.source, since = excluded.since, origin = excluded.origin`,
			r.DID, string(r.Home), string(r.Source), engine.Stamp(r.Since), string(r.From))
	})
	if err != nil {
		return fmt.Errorf("keep mailbox location of %s: %w", r.DID, err)
	}
	return nil
}
