package agentapi

import (
	"context"
	"maps"
	"slices"
	"sync"

	"baton/bridge"
	"baton/federation"
)

// audiences are those who wait, by whom they wait for.
type audiences struct {
	mu sync.Mutex
	of map[federation.DID]*audience
}

// audience is all who wait for what comes to one DID. One goroutine is woken for all of
// them. It looks, and then wakes each, who need not look again.
type audience struct {
	seats map[*seat]struct{} // guarded by the mutex of all audiences
	empty chan struct{}      // closed when the last seat is left
	pages pages              // read since the last wake-up
}

// place is where somebody reads, and how much.
type place struct {
	seen

	limit    int
	notified bool // whether notices are read too
}

// seat is the place of one in an audience. It is used by one goroutine at a time.
type seat struct {
	*audience

	link   *Link
	did    federation.DID
	wake   func() // whenever there may be something, and when the gateway ends; it does not block
	looked bool   // at least once

	mu   sync.Mutex
	next place // where it looks the next time; none before the first
}

// sit makes somebody one of those who wait for a DID. They are woken from now on, and
// leave in the end.
func (l *Link) sit(ctx context.Context, did federation.DID, wake func()) *seat {
	l.waiting.mu.Lock()
	defer l.waiting.mu.Unlock()
	a := l.waiting.of[did]
	if a == nil {
		a = &audience{seats: map[*seat]struct{}{}, empty: make(chan struct{})}
		l.waiting.of[did] = a
		wake, stop := l.deps.Wakes.Subscribe(bridge.DIDTopic(did)) // before anybody looks
		go func() {
			defer stop()
			l.usher(context.WithoutCancel(ctx), did, a, wake)
		}()
	}
	s := &seat{audience: a, link: l, did: did, wake: wake}
	a.seats[s] = struct{}{}
	return s
}

// leave ends the waiting.
func (s *seat) leave() {
	s.link.waiting.mu.Lock()
	defer s.link.waiting.mu.Unlock()
	delete(s.seats, s)
	if len(s.seats) == 0 {
		close(s.empty)
		delete(s.link.waiting.of, s.did)
	}
}

// usher wakes an audience whenever it is to be, and at the end of the gateway, for as long
// as there is one.
func (l *Link) usher(ctx context.Context, did federation.DID, a *audience, wake <-chan struct{}) {
	ended := l.ended
	for {
		select {
		case <-wake:
			for _, at := range l.rouse(a) {
				l.foresee(ctx, did, a, at)
			}
		case <-ended:
			ended = nil // once is enough
		case <-a.empty:
			return
		}
		for _, s := range l.seated(a) {
			s.wake()
		}
	}
}

// rouse forgets what was read before, and returns the places where several look.
func (l *Link) rouse(a *audience) []place {
	a.pages.forget(l.looks.Add(1))
	there := map[place]int{}
	for _, s := range l.seated(a) {
		there[s.nextPlace()]++
	}
	maps.DeleteFunc(there, func(at place, many int) bool { return many == 1 || at == place{} })
	places := slices.Collect(maps.Keys(there))
	return places[:min(len(places), keepPages)]
}

// foresee looks on behalf of others. Where it cannot, they look for themselves.
func (l *Link) foresee(ctx context.Context, did federation.DID, a *audience, at place) {
	if p, err := l.look(ctx, did, at); err == nil {
		l.keep(a, at, p)
	}
}

// seated returns who is in an audience.
func (l *Link) seated(a *audience) []*seat {
	l.waiting.mu.Lock()
	defer l.waiting.mu.Unlock()
	return slices.Collect(maps.Keys(a.seats))
}

// look reads what there is at a place, or shares what somebody else in the
// audience has read since all were woken. At its first look a seat shares only that there
// is nothing: of what is there, it may have acknowledged something a moment ago.
func (s *seat) look(ctx context.Context, at place) (*page, error) {
	first := !s.looked
	s.looked = true
	p := s.pages.find(at)
	if p == nil || first && len(p.entries) > 0 {
		var err error
		if p, err = s.link.look(ctx, s.did, at); err != nil {
			return nil, err
		}
		s.link.keep(s.audience, at, p)
	}
	s.passes(p.next(at))
	return p, nil
}

// passes notes where a seat looks the next time.
func (s *seat) passes(next place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
}

// nextPlace returns where a seat looks the next time.
func (s *seat) nextPlace() place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// keep shares a page with the others, if there are any.
func (l *Link) keep(a *audience, at place, p *page) {
	l.waiting.mu.Lock()
	several := len(a.seats) > 1
	l.waiting.mu.Unlock()
	if several {
		a.pages.keep(at, p)
	}
}
