package registry

import (
	"context"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/store/engine"
)

// Content implements [engine.Tables]: the message that an agent is to be given.
//
//nolint:ireturn // the core does not know the type
func (Tables) Content(ctx context.Context, q engine.Tx, handle string, item int64) (content federation.Content, broken string, err error) {
	var m messageScan
	var position uint64
	err = q.Row(ctx, `SELECT m.position, `+messageColumns+` FROM message m WHERE m.n = ?`, []any{item}, append([]any{&position}, m.dest()...)...)
	if err != nil {
		return nil, "", err
	}
	message, err := m.read()
	if err != nil {
		return nil, err.Error(), nil //nolint:nilerr // one bad row stops no other; broken tells of it
	}
	message.Cursor = positions(handle).At(position)
	return message, "", nil
}

// Notifier implements [engine.Tables]. An agent is told by its registry.
func (Tables) Notifier(ctx context.Context, q engine.Tx, did federation.DID) (link string, err error) {
	var registered bool
	err = q.Row(ctx, `SELECT EXISTS (SELECT 1 FROM agent WHERE did = ?1 OR own_did = ?1)`, []any{did}, &registered)
	if registered {
		link = agents.Link
	}
	return link, err
}

// Forget implements [engine.Tables]. A message that its inbox or its thread is numbered on
// from stays.
func (Tables) Forget(ctx context.Context, q engine.Tx, handoff string) error {
	return q.Put(ctx, `DELETE FROM message AS m WHERE handoff = ? AND `+notNewest, handoff)
}

// PeerDeliveryEnded implements [engine.Tables]: the step of a message to another registry was
// delivered there, or given up.
func (Tables) PeerDeliveryEnded(ctx context.Context, q engine.Tx, r federation.PeerDelivery, how federation.DeliveryState, now time.Time) error {
	return q.Put(ctx, `UPDATE message SET ended = ?, outcome = ? WHERE id = ? AND sender = ? AND event IS NOT NULL`,
		engine.Stamp(now), string(how), r.Message, r.Sender)
}
