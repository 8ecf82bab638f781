package airc

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
)

// What is granted at once of the room that was counted: messages up to that need no
// other count. Counting looks at all that waits for an agent, so that without this the
// hundredth message of a minute would cost a hundred times as much as the first.
const (
	grantedPart = 8               // one part in so many: what others file meanwhile may exceed the limit by no more
	grantedFor  = 5 * time.Second // after which the limits and what waits may be others
)

// maxGrants bounds the grants that are remembered, about 150 bytes each.
const maxGrants = 1 << 14

// grant is room that surely is there: for one agent, or for what one sender writes to it.
type grant struct {
	federation.Free

	until time.Time
}

// pair is a recipient and a sender of messages; the sender "" is all senders.
type pair struct{ to, from string }

// grants holds the inboxes with known free quota. The goroutine that receives the map owns
// it until it sends it back. A restart forgets the map, and the quota is counted again.
type grants struct{ left chan map[pair]grant }

func newGrants() grants {
	g := grants{left: make(chan map[pair]grant, 1)}
	g.left <- map[pair]grant{}
	return g
}

// use takes one message of a size from what was granted to its recipient and its sender,
// and reports whether there was as much.
func (g grants) use(to, from string, size int64, now time.Time) bool {
	left := <-g.left
	defer func() { g.left <- left }()
	all, own := left[pair{to, ""}], left[pair{to, from}]
	for _, on := range []grant{all, own} {
		if now.After(on.until) || !on.Admits(size) {
			return false
		}
	}
	for who, on := range map[pair]grant{{to, ""}: all, {to, from}: own} {
		on.Entries, on.Bytes = on.Entries-1, on.Bytes-size
		left[who] = on
	}
	return true
}

// give grants a part of the room that was counted.
func (g grants) give(to, from string, whole, share federation.Free, now time.Time) {
	left := <-g.left
	defer func() { g.left <- left }()
	if len(left) >= maxGrants {
		clear(left)
	}
	for who, free := range map[pair]federation.Free{{to, ""}: whole, {to, from}: share} {
		left[who] = grant{federation.Free{Entries: free.Entries / grantedPart, Bytes: free.Bytes / grantedPart}, now.Add(grantedFor)}
	}
}

// checkRoom refuses a plain message where the inbox of its recipient is full, or the share
// of its sender in that. Held messages, messages not handed out yet and steps count.
//
// spec: airc-v0.1.1 §11.5
func (l *Link) checkRoom(ctx context.Context, d *delivery) error {
	limits, to, length := l.deps.Quotas().Room, d.recipient.handle, int64(len(d.raw))
	if limits == (federation.InboxLimits{}) || l.grants.use(to, d.from, length, d.received) {
		return nil
	}
	messages, err := l.deps.Record.Unshown(ctx, to, d.from)
	if err != nil {
		return fmt.Errorf("count messages: %w", err)
	}
	steps, err := l.deps.Record.Use(ctx, d.recipient.agent.DID, d.sender.DID)
	if err != nil {
		return fmt.Errorf("count steps: %w", err)
	}
	whole, share := limits.Free(messages.Plus(steps))
	switch {
	case !whole.Admits(length):
		return refuse(codeOverCapacity, "too much waits for this agent")
	case !share.Admits(length):
		return refuse(codeOverCapacity, "too much of what waits for this agent is yours")
	}
	l.grants.give(to, d.from, whole.Less(length), share.Less(length), d.received)
	return nil
}
