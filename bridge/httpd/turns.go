package httpd

import (
	"sync"
	"time"
)

// turns sees that those who wait for an answer come before those who have theirs and ask
// again. It is safe for concurrent use.
type turns struct {
	mu     sync.Mutex
	due    []func()  // that are to begin
	since  time.Time // when the first was put before which none was due
	begun  uint64    // how many have, ever
	behind []*behind // in the order of what they wait for
	calm   time.Time // when those are heard who ask after none is due
}

// longestCalm bounds how much later somebody is heard for the sake of others.
const longestCalm = 50 * time.Millisecond

// behind is somebody who has an answer, and asks again while others wait for theirs.
type behind struct {
	until uint64 // as many have begun, ever
	begun chan struct{}
}

// run runs a turn, with which an answer goes on. Those who ask again from now on are heard
// when it has begun. It does not block.
func (t *turns) run(turn func()) {
	t.put(turn)
	go t.work()
}

// work runs turns until all have begun. There are as many who work as there are turns, so
// that one which takes long holds up no other. Most find nothing left to do: a goroutine
// that goes on with the next turn has a stack for it.
func (t *turns) work() {
	for turn := t.take(); turn != nil; turn = t.take() {
		turn()
	}
}

// put notes a turn that is to begin.
func (t *turns) put(turn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.due) == 0 {
		t.since = time.Now()
	}
	t.due = append(t.due, turn)
}

// take notes that the next turn begins; nil where none is left.
func (t *turns) take() (turn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.due) == 0 {
		t.due = nil
		return nil
	}
	turn, t.due[0], t.due = t.due[0], nil, t.due[1:]
	t.begun++
	if len(t.due) == 0 {
		now := time.Now()
		t.calm = now.Add(min(now.Sub(t.since), longestCalm))
	}
	for len(t.behind) > 0 && t.behind[0].until <= t.begun {
		close(t.behind[0].begun)
		t.behind = t.behind[1:]
	}
	return turn
}

// wait returns once as many turns have begun as were to by now: no later, so that turns
// without end hold up nobody. After the last it is as long again as they took to begin:
// answers that are written have to be taken too, maybe on the same cores.
func (t *turns) wait() {
	if b := t.line(); b != nil {
		<-b.begun
	}
	time.Sleep(t.untilCalm())
}

func (t *turns) untilCalm() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.calm)
}

// line puts somebody behind the turns that are due; nil where none is.
func (t *turns) line() *behind {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.due) == 0 {
		return nil
	}
	b := &behind{t.begun + uint64(len(t.due)), make(chan struct{})}
	t.behind = append(t.behind, b)
	return b
}
