package handoffs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// The same step is refused because its handoff is closed, and other bytes because the ID is in use.
func checkTombstone(ctx context.Context, q engine.Tx, signer int64, id federation.EventID, digest [32]byte) error {
	found, err := lookUpTombstone(ctx, q, signer, id, digest)
	if err != nil || !found.sameSigner {
		return err
	}
	return found.refusal(id)
}

// CheckOpening refuses a step that opens a handoff if it was pruned, or if any signer has used its
// ID.
func CheckOpening(ctx context.Context, q engine.Tx, ev federation.Event, signer int64, digest [32]byte) error {
	found, err := lookUpTombstone(ctx, q, signer, ev.ID, digest)
	if err != nil || !found.sameSigner && (!found.sameID || ev.ID != ev.Handoff) {
		return err
	}
	return found.refusal(ev.ID)
}

// It is zero without a pruned step of this ID or these bytes.
type tombstone struct {
	handoff                       federation.HandoffID
	sameSigner, sameID, sameBytes bool
}

func lookUpTombstone(ctx context.Context, q engine.Tx, signer int64, id federation.EventID, digest [32]byte) (tombstone, error) {
	var found tombstone
	var text []byte
	err := q.Row(ctx, `SELECT handoff, signer = ?1, id = ?2, digest = ?3 FROM tombstone
		WHERE id = ?2 OR signer = ?1 AND digest = ?3 ORDER BY signer = ?1 DESC, id = ?2 DESC LIMIT 1`,
		[]any{signer, id.String(), digest[:]}, &text, &found.sameSigner, &found.sameID, &found.sameBytes)
	if errors.Is(err, federation.ErrNotFound) {
		return tombstone{}, nil
	}
	if err == nil {
		err = found.handoff.UnmarshalText(text)
	}
	if err != nil {
		return tombstone{}, fmt.Errorf("look up tombstones: %w", err)
	}
	return found, nil
}

func (s tombstone) refusal(id federation.EventID) *federation.RefusalError {
	code := federation.TerminalHandoff
	if !s.sameSigner || !s.sameBytes {
		code = federation.EventIDInUse
	}
	return &federation.RefusalError{Code: code, Event: id, Handoff: s.handoff}
}

// BuryIDs stores the IDs of all events of a handoff that will be deleted.
func BuryIDs(ctx context.Context, q engine.Tx, handoff string, now time.Time) error {
	return q.Put(ctx, `INSERT INTO tombstone (id, signer, digest, handoff, gone)
		SELECT id, signer, digest, handoff, ? FROM event WHERE handoff = ? ON CONFLICT DO NOTHING`, engine.Stamp(now), handoff)
}

// Pruned reports whether a handoff was pruned, and the IDs of its steps are kept.
func (s *Logs) Pruned(ctx context.Context, id federation.HandoffID) (pruned bool, err error) {
	err = s.db.Reads().Row(ctx, `SELECT EXISTS (SELECT 1 FROM tombstone WHERE id = ?1 AND handoff = ?1)`, []any{id.String()}, &pruned)
	if err != nil {
		return false, fmt.Errorf("look up tombstone of %s: %w", id, err)
	}
	return pruned, nil
}

// PruneIDs deletes up to limit IDs of steps pruned at or before a given time.
func (s *Logs) PruneIDs(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int64, error) {
		return q.Exec(ctx, `DELETE FROM tombstone WHERE (id, signer) IN
			(SELECT id, signer FROM tombstone WHERE gone <= ? ORDER BY gone`+engine.AtMost+`)`, engine.Stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("forget ids: %w", err)
	}
	return int(gone), nil
}

// PlaceKey returns the stored form of a place: its venue, preceded by the link and a space if it
// exists only on that link.
func PlaceKey(p federation.ChannelRef) string {
	if p.Link == "" || federation.Private(p.Venue) {
		return p.Venue
	}
	return p.Link + " " + p.Venue
}

// Spoken returns up to limit steps of the queried part, oldest first, without receipts.
func (s *Logs) Spoken(ctx context.Context, part federation.TimelineQuery, limit int) ([]federation.TimelineEntry, error) {
	scan := func(row engine.Scanner) (said federation.TimelineEntry, err error) {
		var e EntryScan
		var at int64
		var view []byte
		if err := row.Scan(append(e.Dest(), &at, &said.Position.N, &view)...); err != nil {
			return said, err
		}
		said.Position.At = engine.Moment(at)
		if said.Entry, err = e.Read(); err != nil {
			return said, err
		}
		said.View, err = DecodeView(view)
		return said, err
	}
	order := `ORDER BY e.said, e.seq`
	if part.Newest {
		order = `ORDER BY e.said DESC, e.seq DESC`
	}
	end, endN := int64(math.MaxInt64), uint64(math.MaxInt64)
	if part.Before != (federation.Position{}) {
		end, endN = engine.Stamp(part.Before.At), part.Before.N
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+EntryColumns+`, e.said, e.seq, h.view FROM event e JOIN handoff h ON h.id = e.handoff
		WHERE e.place = ? AND (e.said, e.seq) > (?, ?) AND (e.said, e.seq) < (?, ?) `+order+engine.AtMost,
		PlaceKey(part.Place), engine.Stamp(part.After.At), part.After.N, end, endN, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read history of %s: %w", part.Place.Venue, err)
	}
	if part.Newest {
		slices.Reverse(found)
	}
	return found, nil
}

// PositionOf returns the position of the step at a place with an event ID, otherwise of the step in
// the message with that ID, otherwise [federation.ErrNotFound]. The place is deliberately compared
// without an index: few steps have the ID, and many are at the place.
func (s *Logs) PositionOf(ctx context.Context, p federation.ChannelRef, id string) (federation.Position, error) {
	var m federation.Position
	var at int64
	err := s.db.Reads().Row(ctx, `SELECT said, seq FROM event WHERE (id = ?1 OR message = ?1) AND version > 0 AND coalesce(place, '') = ?2
		ORDER BY id = ?1 DESC, seq LIMIT 1`, []any{id, PlaceKey(p)}, &at, &m.N)
	if err != nil {
		return m, fmt.Errorf("look up message in %s: %w", p.Venue, err)
	}
	m.At = engine.Moment(at)
	return m, nil
}
