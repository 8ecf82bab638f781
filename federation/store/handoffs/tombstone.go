package handoffs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// checkTombstone refuses a step that was pruned: the same step as over, other bytes under
// its id as a second use of that. It returns nil for any other step.
func checkTombstone(ctx context.Context, q engine.Tx, from federation.DID, id federation.EventID, digest [32]byte) error {
	found, err := lookUpTombstone(ctx, q, from, id, digest)
	if err != nil || !found.sameSigner {
		return err
	}
	return found.refusal(id)
}

// CheckOpening is checkTombstone for a step that would begin a log. An id opens one handoff,
// whichever DID signed it.
func CheckOpening(ctx context.Context, q engine.Tx, ev federation.Event, digest [32]byte) error {
	found, err := lookUpTombstone(ctx, q, ev.From, ev.ID, digest)
	if err != nil || !found.sameSigner && (!found.sameID || ev.ID != ev.Handoff) {
		return err
	}
	return found.refusal(ev.ID)
}

// tombstone is what is known of the id or the bytes of a step, the zero value for
// neither.
type tombstone struct {
	handoff                       federation.HandoffID
	sameSigner, sameID, sameBytes bool
}

func lookUpTombstone(ctx context.Context, q engine.Tx, from federation.DID, id federation.EventID, digest [32]byte) (tombstone, error) {
	var found tombstone
	var text []byte
	err := q.Row(ctx, `SELECT handoff, signer = ?1, id = ?2, digest = ?3 FROM tombstone
		WHERE id = ?2 OR signer = ?1 AND digest = ?3 ORDER BY signer = ?1 DESC, id = ?2 DESC LIMIT 1`,
		[]any{from, id.String(), digest[:]}, &text, &found.sameSigner, &found.sameID, &found.sameBytes)
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

// BuryIDs keeps the ids of all events of a handoff that is about to go.
func BuryIDs(ctx context.Context, q engine.Tx, handoff string, now time.Time) error {
	return q.Put(ctx, `INSERT INTO tombstone (id, signer, digest, handoff, gone)
		SELECT id, signer, digest, handoff, ? FROM event WHERE handoff = ? ON CONFLICT DO NOTHING`, engine.Stamp(now), handoff)
}

// PruneIDs forgets up to limit ids of steps pruned at or before a time.
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
