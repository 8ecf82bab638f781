package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"baton/federation"
)

// logPage is how many steps of a log are in memory at a time. A page is read as a
// whole, so that no connection is held while the caller looks at it.
const logPage = 128

// entryColumns are what scanEntry reads, of an event e.
const entryColumns = `coalesce(e.version, 0), e.state, e.filed, e.body`

// entryScan collects the columns of one entry.
type entryScan struct {
	entry federation.Entry
	filed int64
	body  []byte
}

func (e *entryScan) dest() []any {
	return []any{&e.entry.Version, &e.entry.State, &e.filed, &e.body}
}

func (e *entryScan) read() (entry federation.Entry, err error) {
	entry = e.entry
	entry.Filed = moment(e.filed)
	entry.Event, err = decodeEvent(e.body)
	return entry, err
}

func scanEntry(row scanner) (federation.Entry, error) {
	var e entryScan
	if err := row.Scan(e.dest()...); err != nil {
		return federation.Entry{}, err
	}
	return e.read()
}

// Known implements [federationtest.Store].
func (s *Record) Known(ctx context.Context, from federation.DID, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	entry, err := s.known(ctx, from, id, digest)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("look up step of %s: %w", from, err)
	}
	return entry, nil
}

// known asks first whether there is anything to be found: most steps are new.
func (s *Record) known(ctx context.Context, from federation.DID, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	var there, gone bool
	err := s.reads.row(ctx, `SELECT EXISTS (SELECT 1 FROM event WHERE signer = ?1 AND (id = ?2 OR digest = ?3)),
		EXISTS (SELECT 1 FROM tombstone WHERE id = ?2 OR signer = ?1 AND digest = ?3)`, []any{from, id.String(), digest[:]}, &there, &gone)
	switch {
	case err != nil:
		return federation.Entry{}, err
	case there:
		return known(ctx, s.reads, from, id, digest)
	case gone:
		err = checkTombstone(ctx, s.reads, from, id, digest)
	}
	return federation.Entry{}, cmp.Or(err, federation.ErrNotFound)
}

// known finds a step by its id, else by its bytes: the same bytes with an id that
// was minted for them again are the first step.
func known(ctx context.Context, q *statements, from federation.DID, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	var e entryScan
	var sameID, sameBytes bool
	err := q.row(ctx, `SELECT `+entryColumns+`, e.id = ?2, e.digest = ?3 FROM event e
		WHERE e.signer = ?1 AND (e.id = ?2 OR e.digest = ?3) ORDER BY e.id = ?2 DESC LIMIT 1`,
		[]any{from, id.String(), digest[:]}, append(e.dest(), &sameID, &sameBytes)...)
	if err != nil {
		return federation.Entry{}, err
	}
	if sameID && !sameBytes {
		return federation.Entry{}, &federation.RefusalError{Code: federation.EventIDInUse, Event: id}
	}
	return e.read()
}

// Log implements [federationtest.Store].
func (s *Record) Log(ctx context.Context, id federation.HandoffID) iter.Seq2[federation.Entry, error] {
	return func(yield func(federation.Entry, error) bool) {
		var after federation.Version
		for {
			page, err := rows(ctx, s.reads, scanEntry, `SELECT `+entryColumns+` FROM event e
				WHERE e.handoff = ? AND e.version > ? ORDER BY e.version`+atMost, id.String(), after, logPage)
			if err != nil {
				yield(federation.Entry{}, fmt.Errorf("read log of %s: %w", id, err))
				return
			}
			for _, entry := range page {
				if !yield(entry, nil) {
					return
				}
				after = entry.Version
			}
			if len(page) < logPage {
				return
			}
		}
	}
}

// Receipts implements [federationtest.Store].
func (s *Record) Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error) {
	found, err := rows(ctx, s.reads, scanEntry, `SELECT `+entryColumns+` FROM event e
		WHERE e.handoff = ? AND e.version IS NULL ORDER BY e.seq`, id.String())
	if err != nil {
		return nil, fmt.Errorf("read receipts of %s: %w", id, err)
	}
	receipts := make([]federation.Event, len(found))
	for i, entry := range found {
		receipts[i] = entry.Event
	}
	return receipts, nil
}

// Step implements [federationtest.Store].
func (s *Record) Step(ctx context.Context, handoff federation.HandoffID, id federation.EventID) (federation.Entry, error) {
	var e entryScan
	err := s.reads.row(ctx, `SELECT `+entryColumns+` FROM event e
		WHERE e.id = ? AND e.handoff = ? AND e.version IS NOT NULL ORDER BY e.version LIMIT 1`,
		[]any{id.String(), handoff.String()}, e.dest()...)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("look up step %s: %w", id, err)
	}
	return e.read()
}

// Reference implements [federationtest.Store]. An event ID goes before a message id, and the
// first use of a message id before later ones: any sender may choose the text of a message
// id.
func (s *Record) Reference(ctx context.Context, ref string) (federation.HandoffID, error) {
	var id federation.HandoffID
	var text string
	err := s.reads.row(ctx, `SELECT handoff FROM event WHERE id = ?1 OR message = ?1
		ORDER BY id = ?1 DESC, seq LIMIT 1`, []any{ref}, &text)
	if err == nil {
		err = id.UnmarshalText([]byte(text))
	}
	if err != nil {
		return federation.HandoffID{}, fmt.Errorf("look up reference: %w", err)
	}
	return id, nil
}
