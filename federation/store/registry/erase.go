package registry

import (
	"context"
	"strings"
	"time"

	"baton/federation/store/engine"
	"baton/federation/store/outboxes"
)

// erasable is a condition on a message m: it is of one of the handoffs ?1, or from or to one of
// the handles ?2, and was not erased yet.
const erasable = `m.deleted < 2 AND (m.handoff IN (SELECT value FROM json_each(?1))
	OR m.sender IN (SELECT value FROM json_each(?2)) OR m.recipient IN (SELECT value FROM json_each(?2)))`

// Erasable implements [engine.Tables]. A recipient with a domain is an agent of a peer.
func (Tables) Erasable(ctx context.Context, q engine.Tx, handoffs, handles string) (messages int, peers []string, err error) {
	if err := q.Row(ctx, `SELECT count(*) FROM message m WHERE `+erasable, []any{handoffs, handles}, &messages); err != nil {
		return 0, nil, err
	}
	recipients, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT DISTINCT m.recipient FROM message m
		WHERE `+erasable+` AND m.recipient LIKE '%@%' AND m.outcome <> 'expired'`, handoffs, handles)
	for _, recipient := range recipients {
		_, domain, _ := strings.Cut(recipient, "@")
		peers = append(peers, domain)
	}
	return messages, peers, err
}

// Erase implements [engine.Tables]. A message keeps its row, since inboxes and threads are
// numbered on from it: it has no envelope any more, and no reader sees it. A held message has no
// number, and is deleted. Pending deliveries to peers are deleted with their messages.
func (Tables) Erase(ctx context.Context, q engine.Tx, handoffs, handles string, now time.Time) error {
	queued, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT DISTINCT r.n FROM message m
		JOIN peer_delivery r ON r.message = m.id AND r.sender = m.sender WHERE `+erasable, handoffs, handles)
	if err != nil {
		return err
	}
	for _, row := range queued {
		if err := outboxes.ErasePeerDelivery(ctx, q, row); err != nil {
			return err
		}
	}
	if _, err := q.Exec(ctx, `DELETE FROM push WHERE (webhook, item) IN (SELECT h.id, m.n FROM message m
		JOIN webhook h ON h.participant = m.recipient AND h.participant <> '' WHERE `+erasable+`)`, handoffs, handles); err != nil {
		return err
	}
	if _, err := q.Exec(ctx, `DELETE FROM message AS m WHERE m.position IS NULL AND `+erasable, handoffs, handles); err != nil {
		return err
	}
	_, err = q.Exec(ctx, `UPDATE message AS m SET deleted = 2, envelope = ?3, ended = coalesce(m.ended, ?4),
		outcome = CASE WHEN m.event IS NOT NULL AND m.ended IS NULL THEN 'expired' ELSE m.outcome END WHERE `+erasable,
		handoffs, handles, []byte{}, engine.Stamp(now))
	return err
}
