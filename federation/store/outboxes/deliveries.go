package outboxes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/inboxes"
)

// Deliveries returns the state of the deliveries of a handoff, in the order of the steps, then
// of the links and of the agents. It looks for pending ones only in the outboxes of
// these links.
func (s *Outboxes) Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error) {
	names, err := json.Marshal(links)
	if err != nil {
		return nil, fmt.Errorf("read deliveries of %s: %w", id, err)
	}
	scan := func(row engine.Scanner) (federation.Delivered, error) {
		var d federation.Delivered
		var event string
		var ended, next int64
		if err := row.Scan(&event, &d.Link, &d.Participant, &d.State, &d.Attempt, &next, &d.Reason, &ended); err != nil {
			return d, err
		}
		d.Ended, d.Next = engine.Moment(ended), engine.Moment(next)
		return d, d.Event.UnmarshalText([]byte(event))
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT id, link, agent, state, attempt, next, reason, ended FROM (
		SELECT e.seq AS seq, e.id AS id, s.link AS link, '' AS agent, s.state AS state, 0 AS attempt, 0 AS next, s.code AS reason, s.ended AS ended
			FROM event e JOIN settled s ON s.event = e.seq WHERE e.handoff = ?1 AND e.version > 0
		UNION ALL
		SELECT e.seq, e.id, f.link, '', 'waiting', f.attempt, coalesce(f.next, 0), f.reason, 0
			FROM event e CROSS JOIN json_each(?2) j JOIN outbox f ON f.link = j.value AND f.event = e.seq WHERE e.handoff = ?1 AND e.version > 0
		UNION ALL
		SELECT e.seq, e.id, ?3, k.did, p.state, p.attempt, coalesce(p.next, 0), CASE p.state WHEN 'dead' THEN 'failed' WHEN 'refused' THEN 'gone' ELSE p.reason END, p.ended
			FROM handoff h JOIN webhook k ON k.did IN (h.offerer, h.view ->> 'offeree', h.view ->> 'assignee') AND k.participant = ''
			JOIN event e ON e.handoff = h.id JOIN push p ON p.webhook = k.id AND p.item = e.seq WHERE h.id = ?1 AND e.version > 0
		UNION ALL
		`+inboxes.Deliveries(s.db.Parts)+s.tableDeliveries()+`
		) ended_and_waiting ORDER BY seq, link, agent`, id.String(), string(names), federation.WebhookLink, federation.InboxLink)
	if err != nil {
		return nil, fmt.Errorf("read deliveries of %s: %w", id, err)
	}
	return found, nil
}

// tableDeliveries continues a query with the deliveries of the tables of a network.
func (s *Outboxes) tableDeliveries() string {
	if s.db.Parts.Deliveries == "" {
		return ""
	}
	return ` UNION ALL ` + s.db.Parts.Deliveries
}

// Backlog counts the outbox of a link.
func (s *Outboxes) Backlog(ctx context.Context, link string) (federation.Backlog, error) {
	var b federation.Backlog
	err := s.db.Reads().Row(ctx, `SELECT count(*) FROM outbox WHERE link = ?`, []any{link}, &b.Rows)
	if err != nil || b.Rows == 0 {
		return b, wrapBacklog(link, err)
	}
	var oldest int64
	err = s.db.Reads().Row(ctx, `SELECT e.filed FROM outbox f JOIN event e ON e.seq = f.event
		WHERE f.link = ? ORDER BY f.event LIMIT 1`, []any{link}, &oldest)
	if errors.Is(err, federation.ErrNotFound) { // delivered in between
		return federation.Backlog{}, nil
	}
	b.Oldest = engine.Moment(oldest)
	return b, wrapBacklog(link, err)
}

func wrapBacklog(link string, err error) error {
	if err != nil {
		return fmt.Errorf("count outbox of %s: %w", link, err)
	}
	return nil
}
