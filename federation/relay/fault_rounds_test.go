package relay_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

// seed makes a run of the rounds the same again.
var seed = flag.Uint64("seed", 0, "of the rounds; 0 for another one each time")

// rounds is the number of disturbances between two homes.
const rounds = 50

// greeted is how long a home has to greet and to exchange steps until it is started again: in bad
// weather something must be in flight.
const greeted = 20 * time.Millisecond

type fault int

// The faults.
const (
	cut       fault = iota // it does not arrive
	blackhole              // it arrives, and the answer does not
	replayed               // it arrives twice
	faults
)

// weather is the way from one home to another. It implements [relay.Poster].
type weather struct {
	*gate
	mu   sync.Mutex
	next []fault
}

func (w *weather) Post(ctx context.Context, address string, e relay.Envelope) (relay.Envelope, error) {
	w.mu.Lock()
	happens := faults // none of them
	if len(w.next) > 0 {
		happens, w.next = w.next[0], w.next[1:]
	}
	w.mu.Unlock()
	lost := &federation.UnavailableError{What: "home", Err: http.ErrServerClosed}
	if happens == cut {
		return relay.Envelope{}, lost
	}
	answer, err := exchange(ctx, http.MethodPost, address, e)
	if happens == replayed {
		answer, err = exchange(ctx, http.MethodPost, address, e)
	}
	if happens == blackhole {
		return relay.Envelope{}, lost
	}
	return answer, err
}

func (w *weather) turn(next ...fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = append(w.next, next...)
}

func (w *weather) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.next) == 0
}

type side struct {
	*gate
	to      *gate
	weather *weather
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newSide(g, to *gate) *side {
	s := &side{gate: g, to: to, weather: &weather{gate: g}}
	deps := g.deps
	deps.Poster = s.weather
	g.peers[to.id] = relay.NewPeer(relay.PeerConfig{Home: to.id, URL: to.server.URL, Mode: relay.Allow}, deps)
	return s
}

// start starts a home with its earlier record.
func (s *side) start() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.stop = cancel
	s.running.Go(func() {
		for ctx.Err() == nil {
			_ = s.peers[s.to.id].Run(ctx, func() {})
		}
	})
	s.running.Go(func() {
		for ctx.Err() == nil {
			if !s.deliver(ctx) {
				time.Sleep(time.Millisecond) // no delivery was pending, or no home there
			}
		}
	})
}

// deliver makes the pending deliveries until something fails, and reports whether it got on.
func (s *side) deliver(ctx context.Context) (on bool) {
	rows, err := s.record.Outbox(ctx, string(s.to.id), federation.Delivery{}, 100)
	if err != nil {
		return false
	}
	for _, d := range rows {
		if s.peers[s.to.id].Deliver(ctx, d) != nil {
			return on
		}
		if s.record.Rows().Settle(ctx, string(s.to.id), []int64{d.Row}, federation.Settlement{At: time.Now()}) != nil {
			return on
		}
		on = true
	}
	return on
}

func (s *side) kill() {
	s.stop()
	s.running.Wait()
}

// Two homes work on handoffs while messages are cut off, swallowed and doubled, and homes
// are stopped and started: nothing is lost, nothing doubled, and each handoff has its
// order.
func TestRelayLosesNothingInFiftyRoundsOfFaults(t *testing.T) {
	t.Parallel()
	by := *seed
	if by == 0 {
		by = rand.Uint64()
	}
	t.Logf("again: go test -run %s ./federation/relay -seed %d", t.Name(), by)
	chance := rand.New(rand.NewPCG(by, by))
	all := newGates(t, "a.test", "b.test")
	a, b := newSide(all[0], all[1]), newSide(all[1], all[0])
	a.start()
	b.start()
	defer func() { a.kill(); b.kill() }()
	w := &workload{a: a, b: b, todo: map[federation.HandoffID]string{}}
	for range rounds {
		w.offer(1 + chance.IntN(2))
		hit := []*side{a, b}[chance.IntN(2)]
		if chance.IntN(4) == 0 {
			hit.kill()
			w.work()
			hit.start()
			continue
		}
		for range 1 + chance.IntN(3) {
			hit.weather.turn(fault(chance.IntN(int(faults))))
		}
		var last time.Time
		await(t, func() bool {
			w.work()
			if time.Since(last) > greeted {
				hit.kill() // so that there is a greeting at least that meets it
				hit.start()
				last = time.Now()
			}
			return hit.weather.over()
		})
	}
	calm := time.Now()
	await(t, func() bool { w.work(); return len(w.todo) == 0 })
	w.check(t, "offer accept complete")
	t.Logf("%d handoffs, caught up %s after the last round", len(w.ids), time.Since(calm).Round(time.Millisecond))
}

type workload struct {
	a, b *side
	ids  []federation.HandoffID
	todo map[federation.HandoffID]string // by the steps that bob waits for
}

func (w *workload) offer(n int) {
	for range n {
		_, offer := w.a.take("alice", federation.Offer, to("bob"))
		w.ids, w.todo[offer.ID] = append(w.ids, offer.ID), "offer"
	}
}

func (w *workload) work() {
	for id, want := range w.todo {
		switch {
		case w.b.log(id) != want:
		case want == "offer":
			w.b.take("bob", federation.Accept, in(id))
			w.todo[id] = "offer accept"
		default:
			w.b.take("bob", federation.Complete, in(id))
			delete(w.todo, id)
		}
	}
}

// check compares both homes with the workload: nothing is missing, doubled or out of order.
func (w *workload) check(t *testing.T, verbs string) {
	t.Helper()
	for _, id := range w.ids {
		w.b.comes(id, verbs)
		if got := w.a.log(id); got != verbs {
			t.Errorf("%s is %q at its home", id, got)
		}
	}
	for name, at := range map[string]*side{"alice": w.a, "bob": w.b} {
		entries, err := at.record.Replay(t.Context(), keyOf(name).DID, "", 10*len(w.ids))
		seen := map[federation.EventID]bool{}
		for _, entry := range entries {
			if seen[entry.Event.ID] {
				t.Errorf("%s has %s twice", name, entry.Event.ID)
			}
			seen[entry.Event.ID] = true
		}
		if want := map[string]int{"alice": 2, "bob": 1}[name] * len(w.ids); err != nil || len(seen) != want {
			t.Errorf("%s has %d entries, %v; want %d", name, len(seen), err, want)
		}
	}
}
