package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// probeNumber is the number of the lines before the measurement.
const probeNumber = 999_999_999

type line struct {
	sent, accepted time.Time // by the near side
	away           bool      // the bridge was not in the channel when the line was accepted
	took           time.Duration
	msgid          string
}

// tally counts sent and received messages. It may be used concurrently.
type tally struct {
	kind   string
	quiet  time.Duration
	open   chan struct{} // closed when a probe has arrived
	opened sync.Once

	mu         sync.Mutex
	lines      []line // by number
	repeated   int
	sameID     int // of the repeated
	outOfOrder int
	highest    int // highest number that arrived
	last       time.Time
	away       bool
	left       []time.Time
	restarted  time.Time
	recovered  time.Duration // time from the restart until the arrival of a line sent after it; 0 for none
}

func newTally(c trial) *tally {
	return &tally{kind: c.kind, quiet: c.settle, open: make(chan struct{}), lines: make([]line, c.total), highest: -1}
}

func (t *tally) sends(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now()
	t.lines[n].sent = t.last
}

func (t *tally) accepted(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < len(t.lines) {
		t.lines[n].accepted, t.lines[n].away = time.Now(), t.away
	}
}

func (t *tally) bridgeIs(here bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = !here
	if t.away {
		t.left = append(t.left, time.Now())
	}
}

func (t *tally) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.restarted = time.Now()
}

func (t *tally) arrived(a arrival) {
	if a.number == probeNumber {
		t.opened.Do(func() { close(t.open) })
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.kind != t.kind || a.number >= len(t.lines) {
		return
	}
	t.last = a.at
	l := &t.lines[a.number]
	if l.took > 0 {
		t.repeated++
		if l.msgid != "" && l.msgid == a.msgid {
			t.sameID++
		}
		return
	}
	l.took, l.msgid = max(1, a.at.Sub(l.sent)), a.msgid
	if t.recovered == 0 && !t.restarted.IsZero() && l.sent.After(t.restarted) {
		t.recovered = a.at.Sub(t.restarted)
	}
	if a.number < t.highest {
		t.outOfOrder++
	}
	t.highest = max(t.highest, a.number)
}

// transitTime bounds the transit of a line to a bridge. A line accepted by the near side within
// this time before the bridge left may have been in a socket without a reader.
const transitTime = 100 * time.Millisecond

// unread reports whether a missing line was refused to its sender, or accepted while no bridge
// could read it.
func (t *tally) unread(l line) bool {
	if l.took > 0 {
		return false
	}
	return l.accepted.IsZero() || l.away || slices.ContainsFunc(t.left, func(left time.Time) bool {
		before := left.Sub(l.accepted)
		return before >= 0 && before < transitTime
	})
}

// readTime is the time within which a bridge has read a line, even on a busy machine.
const readTime = 2 * time.Second

// inFlight reports whether a line may have been in flight to the bridge when the bridge was killed.
// On a busy machine the transit takes longer than transitTime, and nothing proves that the bridge
// has read the line.
func (t *tally) inFlight(l line) bool {
	return len(t.left) > 0 && l.accepted.Before(t.left[0]) && t.left[0].Sub(l.accepted) < readTime
}

func (t *tally) awaits() bool {
	return slices.ContainsFunc(t.lines, func(l line) bool { return l.took == 0 && !t.unread(l) })
}

// repeatTime is how long the receiver waits for repeats after the last arrival.
const repeatTime = time.Second

func (t *tally) settle(ctx context.Context) error {
	start := time.Now()
	for {
		t.mu.Lock()
		quiet := t.quiet
		if !t.awaits() {
			quiet = repeatTime
		}
		since := max(0, min(time.Since(t.last), time.Since(start)))
		t.mu.Unlock()
		if since >= quiet {
			return nil
		}
		if err := wait(ctx, quiet-since); err != nil {
			return err
		}
	}
}

func (t *tally) result(w way, c trial) result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := result{
		Way: w.name, Kind: c.kind, Rate: c.rate, Killed: c.kill, Sent: len(t.lines),
		Repeated: t.repeated, SameID: t.sameID, OutOfOrder: t.outOfOrder,
	}
	if c.kill != nothing && t.recovered > 0 {
		r.Recovered = milliseconds(t.recovered)
	}
	var took []time.Duration
	overtaken := false
	for _, l := range slices.Backward(t.lines) {
		switch {
		case l.took > 0:
			took = append(took, l.took)
			overtaken = overtaken || len(t.left) == 0 || l.sent.Before(t.left[0])
		case t.unread(l):
			r.Unread++
		default:
			r.Lost++
			if overtaken || !t.inFlight(l) { // a bridge reads in order
				r.ReadLost++
			}
		}
	}
	if len(took) == 0 {
		return r
	}
	slices.Sort(took)
	r.P50, r.P99 = milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
	return r
}

func milliseconds(d time.Duration) *float64 {
	ms := float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
	return &ms
}
