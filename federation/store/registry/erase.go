package registry

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/outboxes"
)

// erasable is a condition on a message m: it is of one of the handoffs ?1, from or to one of the
// handles ?2, or one of the rows ?3, and was not erased yet.
const erasable = `m.deleted < 2 AND (m.handoff IN (SELECT value FROM json_each(?1))
	OR m.sender IN (SELECT value FROM json_each(?2)) OR m.recipient IN (SELECT value FROM json_each(?2))
	OR m.n IN (SELECT CAST(value AS bigint) FROM json_each(?3)))`

// Erasable implements [engine.Tables]. A recipient with a domain is an agent of a peer.
func (Tables) Erasable(ctx context.Context, q engine.Tx, handoffs, handles string) (messages int, peers []string, err error) {
	knocks, err := knocksOf(ctx, q, handles)
	if err != nil {
		return 0, nil, err
	}
	if err := q.Row(ctx, `SELECT count(*) FROM message m WHERE `+erasable, []any{handoffs, handles, knocks}, &messages); err != nil {
		return 0, nil, err
	}
	recipients, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT DISTINCT m.recipient FROM message m
		WHERE `+erasable+` AND m.recipient LIKE '%@%' AND m.outcome <> 'expired'`, handoffs, handles, knocks)
	for _, recipient := range recipients {
		_, domain, _ := strings.Cut(recipient, "@")
		peers = append(peers, domain)
	}
	return messages, peers, err
}

// knocksOf returns the rows of the messages in which the registry asks agents for their consent
// to handles, as JSON: each quotes the first message of its requester.
func knocksOf(ctx context.Context, q engine.Tx, handles string) (string, error) {
	type knock struct {
		n        int64
		envelope []byte
	}
	scan := func(row engine.Scanner) (k knock, err error) { err = row.Scan(&k.n, &k.envelope); return k, err }
	var requesters []string
	if err := federation.DecodeJSON([]byte(handles), &requesters); err != nil {
		return "", err
	}
	asked, err := engine.Rows(ctx, q, scan, `SELECT m.n, m.envelope FROM message m WHERE m.sender = 'system' AND m.event IS NULL AND m.handoff IS NULL AND m.deleted < 2`)
	if err != nil {
		return "", err
	}
	found := []int64{}
	for _, k := range asked {
		var said struct {
			Payload struct {
				Data struct {
					Requester string `json:"requester"`
				} `json:"data"`
			} `json:"payload"`
		}
		if federation.DecodeJSON(k.envelope, &said) == nil && slices.Contains(requesters, said.Payload.Data.Requester) {
			found = append(found, k.n)
		}
	}
	rows, err := json.Marshal(found)
	return string(rows), err
}

// Erase implements [engine.Tables]. A message keeps its row, since inboxes and threads are
// numbered on from it: it has no envelope any more, and no reader sees it. A held message has no
// number, and is deleted. Pending deliveries to peers are deleted with their messages.
func (Tables) Erase(ctx context.Context, q engine.Tx, handoffs, handles string, now time.Time) error {
	knocks, err := knocksOf(ctx, q, handles)
	if err != nil {
		return err
	}
	of := []any{handoffs, handles, knocks}
	queued, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT DISTINCT r.n FROM message m
		JOIN peer_delivery r ON r.message = m.id AND r.sender = m.sender WHERE `+erasable, of...)
	if err != nil {
		return err
	}
	for _, row := range queued {
		if err := outboxes.ErasePeerDelivery(ctx, q, row); err != nil {
			return err
		}
	}
	for _, change := range []string{
		`DELETE FROM push WHERE (webhook, item) IN (SELECT h.id, m.n FROM message m
			JOIN webhook h ON h.participant = m.recipient AND h.participant <> '' WHERE ` + erasable + `)`,
		`DELETE FROM message AS m WHERE m.position IS NULL AND ` + erasable,
	} {
		if err := q.Put(ctx, change, of...); err != nil {
			return err
		}
	}
	return q.Put(ctx, `UPDATE message AS m SET deleted = 2, envelope = ?4, ended = coalesce(m.ended, ?5),
		outcome = CASE WHEN m.event IS NOT NULL AND m.ended IS NULL THEN 'expired' ELSE m.outcome END WHERE `+erasable,
		append(of, []byte{}, engine.Stamp(now))...)
}
