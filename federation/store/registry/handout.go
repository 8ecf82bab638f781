package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
	"baton/federation/store/inboxes"
)

// The states of the delay report of a step in a message.
const (
	slowNot    = 0
	slowTold   = 1 // its signer was told
	slowNobody = 2 // no agent here reads the message: another delivery reports it
)

// slowOf returns what is known of a message that is filed now.
func slowOf(m agents.Message) int {
	if agents.ReadHere(m.To) {
		return slowNot
	}
	return slowNobody
}

// HandOut implements the port Messages of bridge/airc. A reader that polls gets the same page
// again and again, so only a change costs a write.
func (s *Registry) HandOut(ctx context.Context, to string, events []federation.EventID, now time.Time) error {
	if len(events) == 0 {
		return nil
	}
	ids, err := json.Marshal(events)
	if err != nil {
		return fmt.Errorf("write event ids: %w", err)
	}
	const which = `recipient = ? AND ended IS NULL AND event IN (SELECT j.value FROM json_each(?) j)`
	var waiting int
	err = s.db.Reads().Row(ctx, `SELECT count(*) FROM message WHERE `+which, []any{to, string(ids)}, &waiting)
	if err == nil && waiting > 0 {
		err = s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
			found, err := handOuts(ctx, q, which+` ORDER BY n`, to, string(ids))
			if err != nil {
				return err
			}
			return endHandOuts(ctx, q, found, federation.DeliveryDelivered, now)
		})
	}
	if err != nil {
		return fmt.Errorf("note what %s was handed: %w", to, err)
	}
	return nil
}

// handOut is a message whose step waits for its recipient, and the row of the step in the
// log.
type handOut struct {
	n, step   int64
	recipient string
	offer     bool
	slow      int
}

// handOuts reads the messages that the rest of a query finds.
func handOuts(ctx context.Context, q engine.Tx, where string, args ...any) ([]handOut, error) {
	scan := func(row engine.Scanner) (h handOut, err error) {
		err = row.Scan(&h.n, &h.recipient, &h.slow, &h.offer, &h.step)
		return h, err
	}
	return engine.Rows(ctx, q, scan, `SELECT n, recipient, slow, event = handoff,
		coalesce((SELECT e.seq FROM event e WHERE e.id = message.event AND e.handoff || '' = message.handoff), 0)
		FROM message WHERE `+where, args...)
}

// endHandOuts notes how deliveries to agents ended. Signers that were told of a delay are
// told of the delivery, and so are signers of a step that is given up. The home tells the
// offerer of an offer that expired unseen.
func endHandOuts(ctx context.Context, q engine.Tx, found []handOut, how federation.DeliveryState, now time.Time) error {
	for _, h := range found {
		if err := q.Put(ctx, `UPDATE message SET ended = ?, outcome = ? WHERE n = ?`, engine.Stamp(now), string(how), h.n); err != nil {
			return err
		}
		n := federation.Notice{Kind: federation.NoticeDelivered, To: h.recipient, At: now}
		tell := h.slow == slowTold
		if how == federation.DeliveryExpired {
			n.Kind, n.Code, n.Why = federation.NoticeUndeliverable, string(federation.DeadExpired), "it was not fetched"
			tell = !h.offer
		}
		if !tell {
			continue
		}
		if err := inboxes.NoteStep(ctx, q, h.step, n); err != nil {
			return err
		}
	}
	return nil
}

// overHandOuts changes up to limit messages whose recipients were told at or before a time,
// and have not fetched the step.
func (s *Registry) overHandOuts(ctx context.Context, slow int, before time.Time, limit int,
	change func(ctx context.Context, q engine.Tx, found []handOut) error,
) (int, error) {
	const which = `event IS NOT NULL AND ended IS NULL AND slow < 2 AND slow = ? AND told <= ? ORDER BY told, n`
	found, err := handOuts(ctx, s.db.Reads(), which+engine.AtMost, slow, engine.Stamp(before), max(limit, 0))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	changed, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int, error) {
		still, err := handOuts(ctx, q, which+engine.AtMost, slow, engine.Stamp(before), len(found)) // some were handed out in between
		if err != nil {
			return 0, err
		}
		return len(still), change(ctx, q, still)
	})
	if err != nil {
		return 0, fmt.Errorf("note what waits for agents: %w", err)
	}
	return changed, nil
}

// delayHandOuts tells the signers of steps that agents do not fetch.
func (s *Registry) delayHandOuts(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	return s.overHandOuts(ctx, slowNot, before, limit, func(ctx context.Context, q engine.Tx, found []handOut) error {
		for _, h := range found {
			if err := q.Put(ctx, `UPDATE message SET slow = ? WHERE n = ?`, slowTold, h.n); err != nil {
				return err
			}
			n := federation.Notice{Kind: federation.NoticeDelayed, To: h.recipient, Why: "it was not fetched", At: now}
			if err := inboxes.NoteStep(ctx, q, h.step, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// expireHandOuts gives up what agents did not fetch. It stays in their inboxes.
func (s *Registry) expireHandOuts(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	for _, slow := range []int{slowNot, slowTold} {
		n, err := s.overHandOuts(ctx, slow, before, limit-expired, func(ctx context.Context, q engine.Tx, found []handOut) error {
			return endHandOuts(ctx, q, found, federation.DeliveryExpired, now)
		})
		if expired += n; err != nil {
			return expired, err
		}
	}
	return expired, nil
}
