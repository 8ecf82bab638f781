package spanningtree

import (
	"context"
	"time"
)

// readersTime is how long text and steps for a channel wait, after the link has come up, for its first
// user. A server that was restarted links before its users have connected again.
const readersTime = 30 * time.Second

// awaitReaders makes what is for a channel wait until the channel has had a user.
func (s *session) awaitReaders() { s.readersDue = time.After(readersTime) }

// readerless reports whether a row waits for a user of its channel. The line about a step that came
// from the channel does not. Nor does anything wait for users that were there and left.
func (s *session) readerless(r *row) bool {
	ch := s.net.channels[r.venue]
	return s.readersDue != nil && (r.named != nil || r.tags != nil) && ch != nil && !ch.met
}

// deliverUnread delivers what waited for users, where it waits no longer.
func (s *session) deliverUnread(ctx context.Context) {
	rows := s.unread
	s.unread = nil
	for _, r := range rows {
		s.deliver(ctx, r)
	}
}
