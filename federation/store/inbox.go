package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"baton/federation"
)

// inboxPlace is a position in the inbox of one DID: after an entry.
type inboxPlace struct {
	event  uint64 // event.seq of the entry; 0 for the start
	number uint64 // of the entry
}

// inboxTag tells the cursors of inboxes apart.
func inboxTag(did federation.DID) []byte {
	sum := sha256.Sum256([]byte("did " + did))
	return sum[:8]
}

func (p inboxPlace) cursor(of federation.DID) federation.Cursor {
	if p.event == 0 {
		return ""
	}
	raw := binary.BigEndian.AppendUint64(inboxTag(of), p.event)
	return federation.Cursor(base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(raw, p.number)))
}

// parseInboxPlace returns the zero place for a cursor of no inbox of this DID, with
// ok only where that is the start.
func parseInboxPlace(of federation.DID, c federation.Cursor) (p inboxPlace, ok bool) {
	if c == "" {
		return p, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || len(raw) != 3*8 {
		return p, false
	}
	at := inboxPlace{event: binary.BigEndian.Uint64(raw[8:]), number: binary.BigEndian.Uint64(raw[16:])}
	if at.cursor(of) != c || at.event > math.MaxInt64 { // covers the tag and other spellings of a cursor of ours
		return p, false
	}
	return at, true
}

// inboxPlaceOf reads a cursor. An inbox gave it out if it is not beyond the newest
// entry and agrees with the nearest one that is kept: after a restore from a
// backup, cursors of before may not.
func inboxPlaceOf(ctx context.Context, q *statements, of federation.DID, c federation.Cursor) (inboxPlace, error) {
	at, ok := parseInboxPlace(of, c)
	if ok && at.event == 0 {
		return at, nil
	}
	var newest, near inboxPlace
	err := q.row(ctx, `SELECT event, number FROM mailbox WHERE did = ?`, []any{of}, &newest.event, &newest.number)
	if err == nil {
		err = q.row(ctx, `SELECT event, number FROM inbox WHERE did = ? AND event <= ? ORDER BY event DESC LIMIT 1`,
			[]any{of, at.event}, &near.event, &near.number)
	}
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return inboxPlace{}, err
	}
	agrees := near == at || near.event < at.event && near.number < at.number
	if !ok || !agrees || at.event > newest.event || at.number > newest.number {
		return inboxPlace{}, &federation.CursorError{Newest: newest.cursor(of)}
	}
	return at, nil
}

// entryColumns and those of the inbox i that it is in.
const inboxColumns = entryColumns + `, i.event, i.number`

// inboxScan collects the columns of one entry of an inbox.
type inboxScan struct {
	entryScan

	place inboxPlace
}

func (s *inboxScan) dest() []any { return append(s.entryScan.dest(), &s.place.event, &s.place.number) }

func (s *inboxScan) read(of federation.DID) (federation.Entry, error) {
	s.entry.Cursor, s.entry.Number = s.place.cursor(of), s.place.number
	return s.entryScan.read()
}

// Replay implements [federation.Inboxes].
func (s *SQLite) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	at, err := inboxPlaceOf(ctx, s.reads, to, after)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	scan := func(row scanner) (federation.Entry, error) {
		var e inboxScan
		if err := row.Scan(e.dest()...); err != nil {
			return federation.Entry{}, err
		}
		return e.read(to)
	}
	entries, err := rows(ctx, s.reads, scan, `SELECT `+inboxColumns+` FROM inbox i JOIN event e ON e.seq = i.event
		WHERE i.did = ? AND i.event > ? ORDER BY i.event`+atMost, to, at.event, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	return entries, nil
}

// Waiting implements [federation.Inboxes].
func (s *SQLite) Waiting(ctx context.Context, to federation.DID) (entries int, size int64, err error) {
	err = s.reads.row(ctx, `SELECT entries, size FROM mailbox WHERE did = ?`, []any{to}, &entries, &size)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return 0, 0, fmt.Errorf("count inbox of %s: %w", to, err)
	}
	return entries, size, nil
}

// Read implements [federation.Inboxes]. Who polls an inbox is shown the same
// entries over and over, which is not worth a write each time.
func (s *SQLite) Read(ctx context.Context, to federation.DID, events []federation.EventID) error {
	if n, _, err := s.Waiting(ctx, to); err != nil || n == 0 || len(events) == 0 {
		return err
	}
	ids, err := json.Marshal(events)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, q *statements) error {
			_, err := q.exec(ctx, `UPDATE inbox SET waiting = NULL WHERE did = ? AND waiting IS NOT NULL AND event IN
				(SELECT e.seq FROM json_each(?) j JOIN event e ON e.id = j.value)`, to, string(ids))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("mark inbox of %s: %w", to, err)
	}
	return nil
}
