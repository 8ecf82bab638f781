package simulation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

// weather is the probabilities of faults of one message.
type weather struct{ drop, lose, double, alter, delay float64 }

// cut is a time in which nothing gets from one home to another.
type cut struct {
	from, to     int
	since, until time.Duration // from the start of the simulation
}

// carrier carries messages between the homes. The fate of a message follows from the seed, its
// two homes and the time, and not from the order in which goroutines ask for it.
type carrier struct {
	world   *world
	weather weather
	cuts    []cut
	calm    atomic.Bool      // there are no more faults
	seen    []relay.Envelope // earlier messages, for replays; of at most seenMost
	counts  map[string]int   // of faults, by kind
}

const (
	seenMost = 64
	// The time that a home waits for an answer.
	patience = 10 * time.Second
	// The shortest time of a message on its way.
	latency = 5 * time.Millisecond
	// The longest delay of a delayed message.
	longestDelay = 6 * time.Second
)

var errLost = errors.New("no answer")

// fate returns the random numbers of a message that is sent now.
func (c *carrier) fate(from, to int) *rand.Rand {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, c.world.seed, from, to, c.world.elapsed())
	return rand.New(rand.NewPCG(c.world.seed, sum.Sum64()))
}

func (c *carrier) count(what string) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.counts[what]++
}

// away reports whether nothing gets from one home to another now.
func (c *carrier) away(from, to int) bool {
	now := c.world.elapsed()
	for _, each := range c.cuts {
		if !c.calm.Load() && each.from == from && each.to == to && now >= each.since && now < each.until {
			return true
		}
	}
	return false
}

// Post implements [relay.Poster].
func (p *process) Post(ctx context.Context, address string, e relay.Envelope) (relay.Envelope, error) {
	return p.exchange(ctx, http.MethodPost, address, e)
}

// Get implements [relay.Poster].
func (p *process) Get(ctx context.Context, address string) (relay.Envelope, error) {
	return p.exchange(ctx, http.MethodGet, address, relay.Envelope{})
}

// exchange carries a message to another home and its answer back.
func (p *process) exchange(ctx context.Context, method, address string, e relay.Envelope) (relay.Envelope, error) {
	c := p.world.carrier
	at, err := url.Parse(address)
	if err != nil {
		return relay.Envelope{}, err
	}
	to := p.world.site(federation.HomeID(at.Host))
	chance, w := c.fate(p.number, to.number), c.weather
	if script := p.world.script; script != nil {
		w = script.weather(p.site, to, func() { _, _ = to.answer(method, address, e) })
	}
	if c.calm.Load() {
		w = weather{}
	}
	if !c.calm.Load() && method == http.MethodPost {
		c.keep(e)
	}
	travel := func() time.Duration {
		d := latency + time.Duration(chance.Int64N(int64(latency)))
		if chance.Float64() < w.delay {
			c.count("delayed")
			d += time.Duration(chance.Int64N(int64(longestDelay)))
		}
		return d
	}
	c.world.note("%s sends %s %s", p.id, to.id, summary(e))
	dropped := chance.Float64() < w.drop
	if !p.wait(ctx, travel()) || dropped || c.away(p.number, to.number) {
		if dropped {
			c.count("dropped")
		}
		p.wait(ctx, patience)
		return relay.Envelope{}, lost(errLost)
	}
	if chance.Float64() < w.alter {
		c.count("altered")
		e = altered(e, chance)
	}
	answer, err := to.answer(method, address, e)
	if chance.Float64() < w.double {
		c.count("doubled")
		p.wait(ctx, travel())
		answer, err = to.answer(method, address, e)
	}
	losing := chance.Float64() < w.lose
	if !p.wait(ctx, travel()) || losing || c.away(to.number, p.number) || p.dead.Load() {
		if losing {
			c.count("answers lost")
		}
		p.wait(ctx, patience)
		return relay.Envelope{}, lost(errLost)
	}
	return answer, err
}

func lost(err error) error { return &federation.UnavailableError{What: "home", Err: err} }

// wait waits unless the message is given up before, and reports whether it was not.
func (p *process) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !p.dead.Load()
	case <-ctx.Done():
		return false
	case <-p.ctx.Done():
		return false
	}
}

// answer returns the answer of a home to a message that reached it.
func (s *site) answer(method, address string, e relay.Envelope) (relay.Envelope, error) {
	p := s.live()
	if p == nil || p.dead.Load() {
		return relay.Envelope{}, lost(errors.New("connection refused"))
	}
	request := httptest.NewRequestWithContext(p.ctx, method, address, bytes.NewReader(e.Body))
	request.Header = e.Header()
	answered := httptest.NewRecorder()
	p.mux.ServeHTTP(answered, request)
	switch {
	case p.dead.Load(): // it died before it could answer
		return relay.Envelope{}, lost(errLost)
	case answered.Code != http.StatusOK:
		return relay.Envelope{}, lost(fmt.Errorf("status %d", answered.Code))
	}
	return relay.NewEnvelope(answered.Body.Bytes(), answered.Header()), nil
}

func (c *carrier) keep(e relay.Envelope) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if len(c.seen) < seenMost {
		c.seen = append(c.seen, e)
	}
}

// altered returns a message with another byte in its body.
func altered(e relay.Envelope, chance *rand.Rand) relay.Envelope {
	if len(e.Body) == 0 {
		return e
	}
	e.Body = bytes.Clone(e.Body)
	e.Body[chance.IntN(len(e.Body))] ^= byte(1 + chance.IntN(127))
	return e
}

// summary describes a message for people.
func summary(e relay.Envelope) string {
	sum := fnv.New32a()
	_, _ = sum.Write(e.Body)
	return fmt.Sprintf("%d bytes, %08x", len(e.Body), sum.Sum32())
}
