// Package inbox is the mailbox of a DID: what reached it, in order, kept until it
// is read and after. A step enters the inboxes of the other parties of its
// handoff in the same transaction that files it; [Mailbox] reads them.
//
// There are two ways to read. [Mailbox.Replay] shows all that arrived after a
// cursor, as often as it is asked, and changes nothing; each device of a DID has a
// cursor of its own, which [Mailbox.Advance] moves. [Mailbox.Lease] shares out what
// waits: an entry is one device's for a while, and comes again unless that device
// acknowledges it. An entry waits no more once it is acknowledged, a device has read
// past it, or a network has shown it to its DID; it stays in the inbox until its
// handoff leaves the record.
package inbox

import (
	"context"
	"fmt"
	"iter"

	"baton/federation"
)

// pageSize is how many entries one read of the record fetches: enough that a
// replay is not bound by round trips, little enough to hold in memory.
const pageSize = 256

// Mailbox reads inboxes. It may be used concurrently.
type Mailbox struct {
	Inboxes federation.Inboxes
	Leases  federation.Leases
	Devices federation.Devices
}

// Replay yields what reached a DID after a cursor, oldest first, and ends. It
// changes nothing. The error is a [*federation.CursorError] for a cursor that this
// inbox never gave out; the zero cursor reads from the start again.
func (m Mailbox) Replay(ctx context.Context, to federation.DID, after federation.Cursor) iter.Seq2[federation.Entry, error] {
	return func(yield func(federation.Entry, error) bool) {
		for {
			page, err := m.Inboxes.Replay(ctx, to, after, pageSize)
			if err != nil {
				yield(federation.Entry{}, fmt.Errorf("replay inbox: %w", err))
				return
			}
			for _, entry := range page {
				if !yield(entry, nil) {
					return
				}
				after = entry.Cursor
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}
