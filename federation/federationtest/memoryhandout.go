package federationtest

import (
	"context"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// HandOut implements [Registry].
func (m *Memory) HandOut(ctx context.Context, to string, events []federation.EventID, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for _, on := range m.messages {
		if on.To == to && !on.Event.IsZero() && slices.Contains(events, on.Event) {
			m.endHandOut(on, federation.DeliveryDelivered, now)
		}
	}
	return nil
}

// endHandOut notes how the delivery of the step in a message ended. The signer hears of
// one that it was told takes time, and of one that is given up, but for an offer: of that
// the home tells.
func (m *Memory) endHandOut(on *memoryMessage, how federation.DeliveryState, now time.Time) {
	if on.Event.IsZero() || !on.ended.IsZero() {
		return
	}
	on.ended, on.outcome = now, how
	switch {
	case how == federation.DeliveryExpired && on.Event != on.Handoff:
		m.noteMessage(on, federation.Notice{
			Kind: federation.NoticeUndeliverable, Code: string(federation.DeadExpired), Why: "it was not fetched", At: now,
		})
	case how == federation.DeliveryDelivered && on.slow:
		m.noteMessage(on, federation.Notice{Kind: federation.NoticeDelivered, At: now})
	}
}

// noteMessage files a notice about the step in a message.
func (m *Memory) noteMessage(on *memoryMessage, n federation.Notice) {
	for _, entry := range m.entries {
		if entry.Event.ID == on.Event && entry.Event.Handoff == on.Handoff && entry.Version > 0 {
			n.Event, n.To = entry.Event, on.To
			m.notify(n)
		}
	}
}

// unfetched returns up to limit messages with a step that agents were told at or before a
// time, and have not fetched.
func (m *Memory) unfetched(before time.Time, limit int, which func(*memoryMessage) bool) []*memoryMessage {
	var found []*memoryMessage
	for _, on := range m.messages {
		waits := !on.Event.IsZero() && on.ended.IsZero() && on.position > 0 && agents.ReadHere(on.To)
		if waits && !on.Told.After(before) && which(on) && len(found) < limit {
			found = append(found, on)
		}
	}
	return found
}

// delayHandOuts tells the signers of steps that agents do not fetch.
func (m *Memory) delayHandOuts(before, now time.Time, limit int) int {
	found := m.unfetched(before, limit, func(on *memoryMessage) bool { return !on.slow })
	for _, on := range found {
		on.slow = true
		m.noteMessage(on, federation.Notice{Kind: federation.NoticeDelayed, Why: "it was not fetched", At: now})
	}
	return len(found)
}

// expireHandOuts gives up what agents did not fetch.
func (m *Memory) expireHandOuts(before, now time.Time, limit int) int {
	found := m.unfetched(before, limit, func(*memoryMessage) bool { return true })
	for _, on := range found {
		m.endHandOut(on, federation.DeliveryExpired, now)
	}
	return len(found)
}

// endRemote notes how the delivery of a message to another registry ended.
func (m *Memory) endRemote(r *memoryPeerDelivery, how federation.DeliveryState, now time.Time) {
	for _, on := range m.messages {
		if on.ID == r.Message && on.From == r.Sender && !on.Event.IsZero() {
			on.ended, on.outcome = now, how
		}
	}
}
