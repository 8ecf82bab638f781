package agentapi

import (
	"context"
	"sync"
	"time"

	"baton/bridge"
	"baton/federation"
)

// keepPage is for how long the subscribers of a topic share a page. A notification drops
// pages earlier, but a notification may be lost.
const keepPage = time.Second

// keepPages bounds how many pages a topic shares at a time. Most subscribers read at the same
// place.
const keepPages = 4

// keepBytes bounds the size of a shared page, which stays in memory until the next
// notification.
const keepBytes = 8 << 10

// topics are the inboxes for which clients wait now.
type topics struct {
	mu sync.Mutex
	of map[federation.DID]*topic
}

// topic is the inbox of one DID, for which at least one client waits. Its subscribers share
// what one of them reads.
type topic struct {
	subscribers int           // guarded by the mutex of topics
	empty       chan struct{} // closed when the last subscriber has left

	mu      sync.Mutex
	changed chan struct{}   // closed at the next notification
	pages   map[place]*page // read since the last notification
}

// place is a position in an inbox, and how much is read from there.
type place struct {
	seen

	limit       int
	withNotices bool
}

// subscriber is one client that waits for entries of an inbox. One goroutine uses it.
type subscriber struct {
	*topic

	link     *Link
	did      federation.DID
	notified <-chan struct{} // closed once the inbox may have changed since the last look
	looked   bool            // at least once
}

// subscribe adds a subscriber to the topic of a DID. It is notified of all that arrives from
// now on. The caller ends the subscription with leave.
func (l *Link) subscribe(did federation.DID) *subscriber {
	s := &subscriber{topic: l.join(did), link: l, did: did}
	s.listen()
	return s
}

// join returns the topic of a DID with one more subscriber.
func (l *Link) join(did federation.DID) *topic {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	t := l.topics.of[did]
	if t == nil {
		t = &topic{empty: make(chan struct{}), changed: make(chan struct{}), pages: map[place]*page{}}
		l.topics.of[did] = t
		wake, stop := l.deps.Wakes.Subscribe(bridge.DIDTopic(did))
		go func() {
			defer stop()
			t.dispatch(wake)
		}()
	}
	t.subscribers++
	return t
}

// leave ends a subscription.
func (s *subscriber) leave() {
	s.link.topics.mu.Lock()
	defer s.link.topics.mu.Unlock()
	if s.subscribers--; s.subscribers == 0 {
		close(s.empty)
		delete(s.link.topics.of, s.did)
	}
}

// dispatch notifies all subscribers of each wake-up until the last one has left.
func (t *topic) dispatch(wake <-chan struct{}) {
	for {
		select {
		case <-wake:
			t.notify()
		case <-t.empty:
			return
		}
	}
}

// notify drops the shared pages and has every subscriber look again.
func (t *topic) notify() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.pages)
	close(t.changed)
	t.changed = make(chan struct{})
}

// listen has the channel notified closed at the next notification.
func (s *subscriber) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notified = s.changed
}

// look reads the inbox at a place, or shares what another subscriber has read since the last
// notification. It blocks while another subscriber reads. The first look of a subscriber
// shares an empty page only: its client may have acknowledged an entry of another one.
func (s *subscriber) look(ctx context.Context, at place) (*page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notified = s.changed // before the read, so that a notification during it counts
	first := !s.looked
	s.looked = true
	p := s.pages[at]
	if p != nil && time.Since(p.read) < keepPage && (!first || len(p.entries) == 0) {
		return p, nil
	}
	p, err := s.link.read(ctx, s.did, at)
	if err != nil {
		return nil, err
	}
	if delete(s.pages, at); len(s.pages) < keepPages && p.size() <= keepBytes {
		s.pages[at] = p
	}
	return p, nil
}
