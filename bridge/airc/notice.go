package airc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/federation"
	"baton/translate/aircmsg"
)

// What a sender is told later than the answer to its message.
//
// spec: airc-shapes "A step as payload"
const (
	noticeDelayed       = "delayed"
	noticeDelivered     = "delivered"
	noticeUndeliverable = "undeliverable"
)

// notify tells the sender of a message what became of it, where the sender is an agent
// of this registry. It is told each thing once.
func (l *Link) notify(ctx context.Context, row federation.PeerDelivery, notice, reason string, now time.Time) error {
	_, err := l.deps.Record.Agent(ctx, row.Sender)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil // a DID of another network, or a role
	case err != nil:
		return fmt.Errorf("look up sender: %w", err)
	}
	_, to, _ := strings.Cut(row.OrderKey, " ")
	data := members{"notice": notice, "messageId": row.Message}
	if reason != "" {
		data["code"] = reason
	}
	if !row.Handoff.IsZero() {
		data["handoff"] = members{"id": row.Handoff}
	}
	body := fmt.Sprintf("Your message to %s@%s is %s.", to, row.Peer, notice)
	m, err := l.seal(ctx, outgoing{
		ID: sumID(row.Sender, row.Message, notice), From: systemHandle, To: row.Sender, Body: body, Payload: aircmsg.Payload{Type: aircmsg.TypeHandoff, Data: data},
	}, now)
	if err != nil {
		return err
	}
	return l.putOnce(ctx, m)
}
