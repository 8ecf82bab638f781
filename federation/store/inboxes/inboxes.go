// Package inboxes stores the inbox of each DID in the record: its entries, the leases and devices
// of its readers, and the notices to the signers of steps.
package inboxes

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
)

// Inboxes are the inboxes of one record, safe for concurrent use. If several devices request an
// entry, the record decides which device leases it, and whose Ack counts.
type Inboxes struct{ db *engine.DB }

// New returns the inboxes in a database.
func New(db *engine.DB) *Inboxes { return &Inboxes{db} }

type inboxPlace struct {
	event  uint64 // event.seq; 0 for the start
	number uint64
}

func (p inboxPlace) cursor(of federation.DID) federation.Cursor {
	if p.event == 0 {
		return ""
	}
	return didInbox(of).At(p.event, p.number)
}

func parseInboxPlace(of federation.DID, c federation.Cursor) (p inboxPlace, err error) {
	err = didInbox(of).Parse(c, &p.event, &p.number)
	return p, err
}

// A cursor is valid if it is not beyond the newest entry and agrees with the nearest stored one.
// Older cursors may be invalid after a restore from a backup.
func inboxPlaceOf(ctx context.Context, q engine.Tx, of federation.DID, owner int64, c federation.Cursor) (inboxPlace, error) {
	at, unknown := parseInboxPlace(of, c)
	if unknown == nil && at.event == 0 {
		return at, nil
	}
	var newest, near inboxPlace
	err := q.Row(ctx, `SELECT event, number FROM mailbox WHERE did = ?`, []any{owner}, &newest.event, &newest.number)
	if err == nil {
		err = q.Row(ctx, `SELECT event, number FROM inbox WHERE did = ? AND event <= ? ORDER BY event DESC LIMIT 1`,
			[]any{owner, at.event}, &near.event, &near.number)
	}
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return inboxPlace{}, err
	}
	agrees := near == at || near.event < at.event && near.number < at.number
	if unknown != nil || !agrees || at.event > newest.event || at.number > newest.number {
		return inboxPlace{}, &federation.CursorError{Newest: newest.cursor(of)}
	}
	return at, nil
}

// EntryColumns are the columns of an entry and of its row in the inbox i.
const EntryColumns = handoffs.EntryColumns + `, i.event, i.number, i.waiting IS NOT NULL, coalesce((SELECT n.state FROM handoff n WHERE n.id = e.handoff), '')`

// EntryScan scans the columns of one entry of an inbox.
type EntryScan struct {
	handoffs.EntryScan

	place inboxPlace
}

// Dest returns the scan destinations of [EntryColumns].
func (s *EntryScan) Dest() []any {
	return append(s.EntryScan.Dest(), &s.place.event, &s.place.number, &s.Entry.Waits, &s.Entry.Now)
}

// Read returns the scanned entry as seen by the DID.
func (s *EntryScan) Read(of federation.DID) (federation.Entry, error) {
	s.Entry.Cursor, s.Entry.Number = s.place.cursor(of), s.place.number
	return s.EntryScan.Read()
}

// Replay returns up to limit entries of an inbox after the cursor, oldest first, without side
// effects. It returns a [*federation.CursorError] for a cursor that this inbox never issued.
func (s *Inboxes) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	owner, err := s.db.Actor(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	at, err := inboxPlaceOf(ctx, s.db.Reads(), to, owner, after)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	scan := func(row engine.Scanner) (federation.Entry, error) {
		var e EntryScan
		if err := row.Scan(e.Dest()...); err != nil {
			return federation.Entry{}, err
		}
		return e.Read(to)
	}
	entries, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+EntryColumns+` FROM inbox i JOIN event e ON e.seq = i.event
		WHERE i.did = ? AND i.event > ? ORDER BY i.event`+engine.AtMost, owner, at.event, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", to, err)
	}
	return entries, nil
}

// Waiting returns the number of unread entries of an inbox, and the bytes of their signed
// documents.
func (s *Inboxes) Waiting(ctx context.Context, to federation.DID) (entries int, size int64, err error) {
	owner, err := s.db.Actor(ctx, to)
	if err == nil {
		err = s.db.Reads().Row(ctx, `SELECT entries, size FROM mailbox WHERE did = ?`, []any{owner}, &entries, &size)
	}
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return 0, 0, fmt.Errorf("count inbox of %s: %w", to, err)
	}
	return entries, size, nil
}

// Use returns the total use of an inbox, and the part signed by one DID.
func (s *Inboxes) Use(ctx context.Context, to, from federation.DID) (u federation.InboxUse, err error) {
	err = s.db.Reads().Row(ctx, `SELECT m.entries, m.size, coalesce(s.entries, 0), coalesce(s.size, 0)
		FROM mailbox m LEFT JOIN share s ON s.did = m.did AND s.sender = (SELECT n FROM actor WHERE did = ?) WHERE m.did = (SELECT n FROM actor WHERE did = ?)`, []any{from, to},
		&u.Entries, &u.Bytes, &u.SenderEntries, &u.SenderBytes)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return federation.InboxUse{}, fmt.Errorf("count inbox of %s: %w", to, err)
	}
	return u, nil
}

// Undelivered returns up to limit unread entries filed at or before a given time, oldest first.
func (s *Inboxes) Undelivered(ctx context.Context, before time.Time, limit int) ([]federation.Undelivered, error) {
	scan := func(row engine.Scanner) (u federation.Undelivered, err error) {
		var e EntryScan
		var view []byte
		if err := row.Scan(append(e.Dest(), &u.To, &view)...); err != nil {
			return u, err
		}
		if u.Entry, err = e.Read(u.To); err != nil {
			return u, err
		}
		u.View, err = handoffs.DecodeView(view)
		return u, err
	}
	waiting, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+EntryColumns+`, a.did, h.view
		FROM inbox i JOIN actor a ON a.n = i.did JOIN event e ON e.seq = i.event JOIN handoff h ON h.id = e.handoff
		WHERE i.event > 0 AND i.waiting IS NOT NULL ORDER BY i.event, i.did`+engine.AtMost, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("find expired inbox entries: %w", err)
	}
	// Events are numbered in filing order, so the first too recent one ends the scan.
	young := func(u federation.Undelivered) bool { return u.Entry.Filed.After(before) }
	if i := slices.IndexFunc(waiting, young); i >= 0 {
		waiting = waiting[:i]
	}
	return waiting, nil
}

// Positions tags the cursors of one inbox, to reject cursors of other inboxes. A forged cursor
// reveals nothing: a reader of an inbox may read it from any position.
type Positions struct {
	owner string  // as in the query for its newest number
	tag   [8]byte // of kind and owner
}

func didInbox(did federation.DID) Positions { return PositionsOf("did", string(did)) }

// PositionsOf returns the positions in the inbox of an owner of a kind.
func PositionsOf(kind, owner string) Positions {
	sum := sha256.Sum256([]byte(kind + " " + owner))
	return Positions{owner: owner, tag: [8]byte(sum[:])}
}

// At returns the position after an entry, identified by one or more numbers.
func (r Positions) At(entry ...uint64) federation.Cursor {
	raw := slices.Clone(r.tag[:])
	for _, n := range entry {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	return federation.Cursor(base64.RawURLEncoding.EncodeToString(raw))
}

// Parse reads the numbers of the entry before a position into entry, each 0 for the start.
func (r Positions) Parse(c federation.Cursor, entry ...*uint64) error {
	if c == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || len(raw) != len(r.tag)+8*len(entry) {
		return federation.ErrUnknownCursor
	}
	numbers := make([]uint64, len(entry))
	for i := range numbers {
		numbers[i] = binary.BigEndian.Uint64(raw[len(r.tag)+8*i:])
	}
	// The tag also rejects other base64 spellings. SQLite has no number above an int64.
	if r.At(numbers...) != c || slices.Contains(numbers, 0) || slices.Max(numbers) > math.MaxInt64 {
		return federation.ErrUnknownCursor
	}
	for i, number := range entry {
		*number = numbers[i]
	}
	return nil
}
