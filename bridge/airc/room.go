package airc

import (
	"context"
	"fmt"
	"time"
)

// What is granted at once of the room that was counted: messages up to that need no
// other count. Counting looks at all that waits for an agent, so that without this the
// hundredth message of a minute would cost a hundred times as much as the first.
const (
	grantedPart = 8               // one part in so many: what others file meanwhile may exceed the limit by no more
	grantedFor  = 5 * time.Second // after which the limits and what waits may be others
)

// maxGrants bounds the agents whose room is remembered, about 100 bytes each.
const maxGrants = 1 << 14

// grant is room that one agent surely has.
type grant struct {
	entries int
	size    int64 // bytes
	until   time.Time
}

// grants is for whom there surely is room. Whoever took the map owns it, and puts it
// back. A restart forgets it, and counts again.
type grants struct{ left chan map[string]grant }

func newGrants() grants {
	g := grants{left: make(chan map[string]grant, 1)}
	g.left <- map[string]grant{}
	return g
}

// use takes one message of a size from what was granted, and reports whether there was
// as much.
func (g grants) use(handle string, size int64, now time.Time) bool {
	left := <-g.left
	defer func() { g.left <- left }()
	on, ok := left[handle]
	if !ok || now.After(on.until) || on.entries < 1 || on.size < size {
		return false
	}
	on.entries, on.size = on.entries-1, on.size-size
	left[handle] = on
	return true
}

// give grants a part of the room that was counted.
func (g grants) give(handle string, entries int, size int64, now time.Time) {
	left := <-g.left
	defer func() { g.left <- left }()
	if len(left) >= maxGrants {
		clear(left)
	}
	left[handle] = grant{entries / grantedPart, size / grantedPart, now.Add(grantedFor)}
}

// checkRoom refuses a plain message to an agent for whom too much waits already,
// held or not handed out yet, steps among it.
//
// spec: airc-v0.1.1 §11.5
func (l *Link) checkRoom(ctx context.Context, d *delivery) error {
	entries, size := l.deps.Room()
	to, length := d.recipient.handle, int64(len(d.raw))
	if entries <= 0 && size <= 0 || l.grants.use(to, length, d.received) {
		return nil
	}
	messages, held, err := l.deps.Registry.Unshown(ctx, to)
	if err != nil {
		return fmt.Errorf("count messages: %w", err)
	}
	steps, more, err := l.deps.Inboxes.Waiting(ctx, d.recipient.agent.DID)
	if err != nil {
		return fmt.Errorf("count steps: %w", err)
	}
	freeEntries, freeSize := entries-messages-steps, size-held-more
	if entries > 0 && freeEntries <= 0 || size > 0 && freeSize < length {
		return refuse(codeOverCapacity, "too much waits for this agent")
	}
	if entries <= 0 {
		freeEntries = maxGrants * grantedPart
	}
	if size <= 0 {
		freeSize = maxUnlimitedBytes * grantedPart
	}
	l.grants.give(to, freeEntries-1, freeSize-length, d.received)
	return nil
}

// maxUnlimitedBytes is granted at a time where bytes have no limit.
const maxUnlimitedBytes = 1 << 30
