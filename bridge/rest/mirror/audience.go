package mirror

import (
	"context"
	"sync"
	"time"

	"baton/bridge"
	"baton/federation"
)

// keepPage is for how long those who wait for one DID share a page: wake-ups say when it
// is out of date, but one may be lost.
const keepPage = time.Second

// keepPages bounds how many pages are shared at a time by those who wait for one DID. They
// are woken at the same place, but for those who are behind.
const keepPages = 4

// keepBytes bounds what is kept of a page, for as long as somebody waits.
const keepBytes = 8 << 10

// audiences are those who wait, by whom they wait for.
type audiences struct {
	mu sync.Mutex
	of map[federation.DID]*audience
}

// audience is all who wait for what comes to one DID. One wake-up comes for all of them:
// whoever gets it looks, and then passes it on to the others, who need not look again.
// Its seats and pages are guarded by the mutex of all audiences.
type audience struct {
	wake   <-chan struct{}
	stop   func() // no more waking
	seats  map[*seat]struct{}
	pages  map[place]*page // read since the last wake-up
	roused uint64          // when that was, in looks
}

// place is where somebody reads, and how much.
type place struct {
	after federation.Cursor
	limit int
}

// seat is the place of one in an audience. It is used by one goroutine, which selects on
// wake, and is then to call rouse, and on passed.
type seat struct {
	*audience

	link   *Link
	did    federation.DID
	passed chan struct{} // has a token once somebody else was woken
	leads  bool          // has been woken, and the others do not know yet
	looked bool          // at least once
}

// sit makes somebody one of those who wait for a DID. They are woken from now on, and
// leave in the end.
func (l *Link) sit(did federation.DID) *seat {
	l.waiting.mu.Lock()
	defer l.waiting.mu.Unlock()
	a := l.waiting.of[did]
	if a == nil {
		a = &audience{seats: map[*seat]struct{}{}, pages: map[place]*page{}}
		a.wake, a.stop = l.deps.Wakes.Subscribe(bridge.DIDTopic(did))
		l.waiting.of[did] = a
	}
	s := &seat{audience: a, link: l, did: did, passed: make(chan struct{}, 1)}
	a.seats[s] = struct{}{}
	return s
}

// leave ends the waiting.
func (s *seat) leave() {
	s.passOn()
	s.link.waiting.mu.Lock()
	defer s.link.waiting.mu.Unlock()
	delete(s.seats, s)
	if len(s.seats) == 0 {
		s.stop()
		delete(s.link.waiting.of, s.did)
	}
}

// rouse notes that the wake-up for all came to this seat. The others have it once it has
// looked.
func (s *seat) rouse() {
	s.leads = true
	s.link.waiting.mu.Lock()
	defer s.link.waiting.mu.Unlock()
	s.roused = s.link.looks.Add(1)
	clear(s.pages)
}

// passOn wakes the others, if this seat was woken for them.
func (s *seat) passOn() {
	if !s.leads {
		return
	}
	s.leads = false
	s.link.waiting.mu.Lock()
	defer s.link.waiting.mu.Unlock()
	for other := range s.seats {
		if other == s {
			continue
		}
		select {
		case other.passed <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// look reads up to limit entries after a cursor, or shares what somebody else in the
// audience has read since all were woken. At its first look a seat shares only that there
// is nothing: of what is there, it may have acknowledged something a moment ago.
func (s *seat) look(ctx context.Context, after federation.Cursor, limit int) (*page, error) {
	defer s.passOn()
	first, at := !s.looked, place{after, limit}
	s.looked = true
	if p := s.kept(at); p != nil && (!first || len(p.entries) == 0) {
		return p, nil
	}
	p, err := s.link.look(ctx, s.did, after, limit)
	if err == nil {
		s.keep(at, p)
	}
	return p, err
}

// kept returns the page of a place, nil where there is none that is new.
func (s *seat) kept(at place) *page {
	s.link.waiting.mu.Lock()
	defer s.link.waiting.mu.Unlock()
	if p := s.pages[at]; p != nil && time.Since(p.at) < keepPage {
		return p
	}
	return nil
}

// keep shares a page with the others, unless they were woken while it was read.
func (s *seat) keep(at place, p *page) {
	size := 0
	for _, entry := range p.entries {
		size += len(entry)
	}
	s.link.waiting.mu.Lock()
	defer s.link.waiting.mu.Unlock()
	known := s.pages[at] != nil
	if len(s.seats) > 1 && size <= keepBytes && p.began > s.roused && (known || len(s.pages) < keepPages) {
		s.pages[at] = p
	}
}
