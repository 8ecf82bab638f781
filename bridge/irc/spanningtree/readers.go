package spanningtree

import (
	"context"
	"time"
)

// readersTime is how long text of a channel without users waits after the link has come up. A server
// that was restarted links before its users have connected again.
const readersTime = 30 * time.Second

// awaitReaders makes text wait until its channel has users again.
func (s *session) awaitReaders() { s.readersDue = time.After(readersTime) }

// readerless reports whether a row is text that waits for users of its channel.
func (s *session) readerless(r *row) bool {
	ch := s.net.channels[r.venue]
	return s.readersDue != nil && r.named != nil && ch != nil && len(ch.members) == 0
}

// deliverUnread delivers the text that waited for users, where it waits no longer.
func (s *session) deliverUnread(ctx context.Context) {
	rows := s.unread
	s.unread = nil
	for _, r := range rows {
		s.deliver(ctx, r)
	}
}
