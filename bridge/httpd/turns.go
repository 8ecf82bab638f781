package httpd

import "sync"

// turns sees that those who wait for an answer come before those who have theirs and ask
// again. It is safe for concurrent use.
type turns struct {
	mu     sync.Mutex
	due    uint64    // that were to begin, ever
	begun  uint64    // of them
	behind []*behind // in the order of what they wait for
}

// behind is somebody who has an answer, and asks again while others wait for theirs.
type behind struct {
	due   uint64 // as many are to begin first
	begun chan struct{}
}

// run runs a turn, with which an answer goes on. Those who ask again from now on are heard
// when it has begun.
func (t *turns) run(turn func()) {
	t.schedule()
	go func() {
		t.begin()
		turn()
	}()
}

// schedule notes that a turn is to begin.
func (t *turns) schedule() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due++
}

// begin notes that a turn has begun.
func (t *turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun++
	for len(t.behind) > 0 && t.behind[0].due <= t.begun {
		close(t.behind[0].begun)
		t.behind = t.behind[1:]
	}
}

// wait returns once as many turns have begun as were to by now: no later, so that turns
// without end hold up nobody.
func (t *turns) wait() {
	if b := t.line(); b != nil {
		<-b.begun
	}
}

// line puts somebody behind the turns that are due; nil where none is.
func (t *turns) line() *behind {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == t.due {
		return nil
	}
	b := &behind{t.due, make(chan struct{})}
	t.behind = append(t.behind, b)
	return b
}
