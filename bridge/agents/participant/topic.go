package participant

import (
	"context"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// keepPage is how long the subscribers of a topic share a page. A notification drops pages earlier, but
// may be lost.
const keepPage = time.Second

// keepPages bounds the shared pages of a topic. Most subscribers read at the same position.
const keepPages = 4

// keepBytes bounds the size of a shared page. It stays in memory until the next notification.
const keepBytes = 8 << 10

// pollInterval is the interval of inbox reads of a waiting request, because notifications may be lost.
const pollInterval = 15 * time.Second

// Page is the result of one read of an inbox. It is shared and immutable.
type Page interface {
	// Read returns the start time of the read.
	Read() time.Time
	Empty() bool
	// Size returns the approximate size of the page in memory, in bytes.
	Size() int
}

// Topics are the inboxes with waiting clients of one network. Clients at the same position share one
// read. They are safe for concurrent use.
type Topics[K comparable, P Page] struct {
	wakes bridge.PubSub
	read  func(ctx context.Context, did federation.DID, at K) (P, error)

	mu sync.Mutex
	of map[federation.DID]*topic[K, P]
}

// NewTopics returns topics; read reads the inbox of a DID at a position.
func NewTopics[K comparable, P Page](wakes bridge.PubSub, read func(ctx context.Context, did federation.DID, at K) (P, error)) *Topics[K, P] {
	return &Topics[K, P]{wakes: wakes, read: read, of: map[federation.DID]*topic[K, P]{}}
}

// topic is the inbox of one DID with at least one waiting client. Its subscribers share pages.
type topic[K comparable, P Page] struct {
	subscribers int           // guarded by Topics.mu
	empty       chan struct{} // closed when the last subscriber leaves

	mu      sync.Mutex
	changed chan struct{} // closed at the next notification
	pages   map[K]P       // read since the last notification
}

// Subscriber is one client waiting for entries of an inbox. It is not safe for concurrent use.
type Subscriber[K comparable, P Page] struct {
	// DID is the owner of the inbox.
	DID federation.DID
	// Notified is closed once the inbox may have changed since the last read.
	Notified <-chan struct{}

	topic  *topic[K, P]
	topics *Topics[K, P]
	looked bool
}

// Subscribe adds a subscriber to the inbox of a DID. It is notified of all later arrivals. The caller
// must call Leave.
func (t *Topics[K, P]) Subscribe(did federation.DID) *Subscriber[K, P] {
	s := &Subscriber[K, P]{topic: t.join(did), topics: t, DID: did}
	s.Listen()
	return s
}

func (t *Topics[K, P]) join(did federation.DID) *topic[K, P] {
	t.mu.Lock()
	defer t.mu.Unlock()
	joined := t.of[did]
	if joined == nil {
		joined = &topic[K, P]{empty: make(chan struct{}), changed: make(chan struct{}), pages: map[K]P{}}
		t.of[did] = joined
		wake, stop := t.wakes.Subscribe(bridge.DIDTopic(did))
		go func() {
			defer stop()
			joined.dispatch(wake) // only forwards tokens, and calls no other code
		}()
	}
	joined.subscribers++
	return joined
}

// Leave ends a subscription.
func (s *Subscriber[K, P]) Leave() {
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	if s.topic.subscribers--; s.topic.subscribers == 0 {
		close(s.topic.empty)
		delete(s.topics.of, s.DID)
	}
}

func (t *topic[K, P]) dispatch(wake <-chan struct{}) {
	for {
		select {
		case <-wake:
			t.notify()
		case <-t.empty:
			return
		}
	}
}

func (t *topic[K, P]) notify() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.pages)
	close(t.changed)
	t.changed = make(chan struct{})
}

// Listen arms Notified for the next notification.
func (s *Subscriber[K, P]) Listen() {
	s.topic.mu.Lock()
	defer s.topic.mu.Unlock()
	s.Notified = s.topic.changed
}

// Look reads the inbox at a position, or returns a page read by another subscriber since the last
// notification. It blocks while another subscriber reads. A subscriber's first call uses a shared page
// only if it is empty, because the client may have acknowledged its entries.
func (s *Subscriber[K, P]) Look(ctx context.Context, at K) (P, error) {
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Notified = t.changed // before the read, so that no notification during it is missed
	first := !s.looked
	s.looked = true
	p, shared := t.pages[at]
	if shared && time.Since(p.Read()) < keepPage && (!first || p.Empty()) {
		return p, nil
	}
	p, err := s.topics.read(ctx, s.DID, at)
	if err != nil {
		return p, err
	}
	if delete(t.pages, at); len(t.pages) < keepPages && p.Size() <= keepBytes {
		t.pages[at] = p
	}
	return p, nil
}

// Waiter is a request waiting for entries of an inbox for a limited time.
type Waiter[K comparable, P Page] struct {
	*Subscriber[K, P]

	until time.Time
	again *time.Timer
}

// Await subscribes a request to the inbox of a DID for a limited time. The caller must call Leave.
func (t *Topics[K, P]) Await(did federation.DID, within time.Duration) *Waiter[K, P] {
	return &Waiter[K, P]{t.Subscribe(did), time.Now().Add(within), time.NewTimer(min(within, pollInterval))}
}

// Wait returns true when the next read is due. It returns false if the time is over, ctx ends or ended
// is closed.
func (w *Waiter[K, P]) Wait(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-w.Notified:
		w.Listen()
		return true
	case <-w.again.C:
		left := time.Until(w.until)
		w.again.Reset(min(left, pollInterval))
		return left > 0
	case <-ended:
		return false
	case <-ctx.Done():
		return false
	}
}

// Leave ends the subscription.
func (w *Waiter[K, P]) Leave() {
	w.again.Stop()
	w.Subscriber.Leave()
}

// Poll returns the page of an inbox at a position. It blocks until there is an entry, the time is over,
// ctx ends or ended is closed.
func (w *Waiter[K, P]) Poll(ctx context.Context, at K, ended <-chan struct{}) (P, error) {
	for waits := true; ; {
		p, err := w.Look(ctx, at)
		if err != nil || !p.Empty() || !waits {
			return p, err
		}
		waits = w.Wait(ctx, ended)
	}
}
