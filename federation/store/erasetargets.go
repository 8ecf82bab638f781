package store

import (
	"context"
	"strconv"

	"baton/federation"
	"baton/federation/store/engine"
	"baton/federation/store/outboxes"
	"baton/federation/store/participants"
)

// targets returns what an erasure changes, and where it is counted.
func (e *erasure) targets(done *federation.Erasing) []target {
	return append(e.eventTargets(done), e.otherTargets(done)...)
}

// eventTargets are the rows that are erased with events, and the evidence behind these.
func (e *erasure) eventTargets(done *federation.Erasing) []target {
	both, handoffs := []any{e.dids, e.handoffs}, []any{e.handoffs}
	const those = `IN (SELECT value FROM json_each(?1))`
	return []target{
		{count: &done.Documents, table: `event e`, where: `e.handoff ` + those + ` AND e.state <> 'said' AND e.body ->> 'erased' IS NULL`, args: handoffs},
		{count: &done.Messages, table: `event e`, where: `e.body ->> 'erased' IS NULL AND ` + saidOfThem, args: both},
		{count: &done.Waiting, table: `outbox f JOIN event e ON e.seq = f.event`, where: eraseOfThem, args: both},
		{count: &done.Waiting, table: `inbox i JOIN event e ON e.seq = i.event`, where: `i.waiting IS NOT NULL AND (` + eraseOfThem + `)`, args: both},
		{count: &done.Waiting, table: `dead d JOIN event e ON e.seq = d.event`, where: eraseOfThem, args: both},
		{count: &done.Evidence, table: `evidence v`, where: `v.handoff ` + those, args: handoffs, drop: dropped{all: true}},
	}
}

// otherTargets are the rows that belong to no filed event.
func (e *erasure) otherTargets(done *federation.Erasing) []target {
	both, all := []any{e.dids, e.handoffs}, dropped{all: true}
	const eventOrHandoff = `(` + eventOfThem + ` OR e.handoff ` + ofHandoffs + `)`
	return []target{
		{
			&done.Contexts, `blob b`, `b.owner ` + ofDIDs + ` OR EXISTS (SELECT 1 FROM blob_claim c WHERE c.capability = b.capability AND c.handoff ` + ofHandoffs + `)`,
			both,
			dropped{key: `b.capability`, each: dropBlob},
		},
		{&done.Waiting, `deferred e`, eventOrHandoff, both, dropped{key: `e.n`, each: byRow(e.record.DropDeferral)}},
		{&done.Waiting, `pending e`, eventOrHandoff, both, all},
		{
			&done.Waiting, `peer_delivery r`, `r.sender ` + ofDIDs + ` OR r.handoff ` + ofHandoffs,
			[]any{e.participants, e.handoffs},
			dropped{key: `r.n`, each: byRow(outboxes.ErasePeerDelivery)},
		},
		{&done.Other, `answer a`, `a.did ` + ofDIDs + ` OR EXISTS (SELECT 1 FROM event e WHERE e.id = a.event AND (` + eraseOfThem + `))`, both, all},
		{
			&done.Other, `notice n`, `n.signer ` + ofDIDs + ` OR n.reader ` + ofDIDs + ` OR n.body -> 'event' ->> 'handoff' ` + ofHandoffs + `
				OR EXISTS (SELECT 1 FROM event e WHERE e.id = n.event AND ` + saidOfThem + `)`, both, all,
		},
		{&done.Other, `webhook w`, `w.did ` + ofDIDs + ` OR w.handoff ` + ofHandoffs, both, dropped{key: `w.id`, each: dropWebhook}},
		{
			&done.Other, `session s`, `s.participant ` + ofDIDs + ` OR s.participant ` + ofHandoffs,
			[]any{e.dids, e.participants},
			dropped{key: `s.id`, each: participants.DropSession},
		},
		{&done.Other, `declaration d`, `d.did ` + ofDIDs, []any{e.dids}, all},
		{&done.Other, `login l`, `l.did ` + ofDIDs, []any{e.dids}, all},
	}
}

// dropBlob deletes a blob, which other handoffs may refer to.
func dropBlob(ctx context.Context, q engine.Tx, capability string) error {
	for _, change := range []string{`DELETE FROM blob_claim WHERE capability = ?`, `DELETE FROM blob WHERE capability = ?`} {
		if err := q.Put(ctx, change, capability); err != nil {
			return err
		}
	}
	return nil
}

func dropWebhook(ctx context.Context, q engine.Tx, key string) error {
	id, err := federation.ParseEventID(key)
	if err != nil {
		return err
	}
	return outboxes.DropWebhook(ctx, q, id)
}

// byRow returns a drop by a key that is a number.
func byRow(drop func(context.Context, engine.Tx, int64) error) func(context.Context, engine.Tx, string) error {
	return func(ctx context.Context, q engine.Tx, key string) error {
		row, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return err
		}
		return drop(ctx, q, row)
	}
}

// endDeliveries ends what waits of an event that is erased, and tells no signer.
func (e *erasure) endDeliveries(ctx context.Context, q engine.Tx, s stored) error {
	gone := federation.Settlement{State: federation.DeliveryDead, Code: string(federation.DeadOperator), Quiet: true, At: e.now}
	links, err := engine.Rows(ctx, q, engine.ScanOne[string], `SELECT link FROM outbox WHERE handoff = ? AND event = ?`, s.handoff, s.seq)
	if err != nil {
		return err
	}
	for _, link := range links {
		if err := outboxes.End(ctx, q, link, s.seq, gone); err != nil {
			return err
		}
	}
	letters, err := engine.Rows(ctx, q, engine.ScanOne[int64], `SELECT n FROM dead WHERE event = ?`, s.seq)
	if err != nil {
		return err
	}
	for _, n := range letters {
		if err := outboxes.ForgetDead(ctx, q, n); err != nil {
			return err
		}
	}
	return nil
}
