package simulation_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

// The size of a federation, and of its work under faults.
const (
	homes         = 5
	agentsOfEach  = 2
	events        = 90
	longestPause  = 1500 * time.Millisecond // between two events
	longestDown   = 15 * time.Second        // of a crashed home
	drainStep     = 10 * time.Second
	longestDrain  = 12 * time.Minute // after the faults: more than the longest wait of a retry
	quietSteps    = 8                // without pending work; a failed comparison of homes is repeated after a minute
	restoresAfter = 10 * time.Second // the least age of a backup that is restored
)

// profile is the kinds of faults of one seed.
type profile struct {
	offers                       float64
	crashes                      float64
	moves, restores, liars, skew bool
	power, steps                 bool // a power cut loses unsynced writes; the clocks of homes are stepped
}

// world is one federation, with everything that happens to it. Its clock is that of a bubble of
// synctest.
type world struct {
	seed    uint64
	ctx     context.Context //nolint:containedctx // of the test
	empty   string          // the folder of a record without rows
	folder  string          // of all records of the federation
	random  *rand.Rand      // of the one goroutine that makes events
	entropy *entropy        // of the agents
	profile profile
	keys    keys
	carrier *carrier
	oracle  *oracle
	sites   []*site
	agents  []*agent
	offered []federation.HandoffID
	ending  bool      // no more faults and no new work
	lastEnd time.Time // of the unanswered offers with a deadline
	began   time.Time
	upAt    map[*site]time.Time
	script  *script // of an exhaustive check; nil for a seed

	lived time.Duration // of the whole simulation

	mu       sync.Mutex // of the following, and of the counts of the carrier
	failures []string
	notes    []string
}

func (w *world) elapsed() time.Duration { return time.Since(w.began) }

// fail notes a violation of a rule.
func (w *world) fail(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, rule+": "+fmt.Sprintf(format, args...))
}

func (w *world) note(format string, args ...any) {
	if !verbose {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf("%10.3fs ", w.elapsed().Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) site(home federation.HomeID) *site {
	for _, s := range w.sites {
		if s.id == home {
			return s
		}
	}
	panic("no home " + string(home))
}

// chance reports an event with a probability.
func (w *world) chance(p float64) bool { return w.random.Float64() < p }

// upTo returns a random duration.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }

// bareWorld returns a federation without homes.
func bareWorld(ctx context.Context, empty, folder string, seed uint64) *world {
	w := &world{
		seed: seed, ctx: ctx, empty: empty, folder: folder, began: time.Now(), random: rand.New(rand.NewPCG(seed, 1)), upAt: map[*site]time.Time{},
		entropy: &entropy{random: rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "agents %d", seed)))},
		keys:    keys{homes: map[federation.DID]ed25519.PublicKey{}},
	}
	w.carrier = &carrier{world: w, counts: map[string]int{}}
	w.oracle = newOracle(w)
	return w
}

// addSite adds the next home.
func (w *world) addSite() *site {
	i := len(w.sites)
	id := federation.HomeID(string(rune('a'+i)) + ".test")
	s := &site{world: w, number: i, id: id, key: newKey(string(id)), folder: w.newFolder(string(id))}
	s.key.DID = id.DID()
	w.keys.homes[s.key.DID] = s.key.Public
	w.sites = append(w.sites, s)
	return s
}

func (w *world) addAgent(at *site, name string) *agent {
	a := &agent{world: w, name: name, key: newKey("agent " + name), at: at, were: []*site{at}, dialect: federation.HandoffTags, loggedIn: map[*process]bool{}, moves: new(atomic.Bool), moved: new(atomic.Bool)}
	w.agents = append(w.agents, a)
	return a
}

// newWorld returns the federation of a seed. Nothing runs yet.
func newWorld(ctx context.Context, empty, folder string, seed uint64) *world {
	w := bareWorld(ctx, empty, folder, seed)
	w.profile = profile{offers: 0.2 + 0.3*w.random.Float64(), crashes: 0.12 * w.random.Float64(), moves: w.chance(0.3), liars: w.chance(0.3), skew: w.chance(0.5)}
	w.profile.power, w.profile.steps = seed%5 == 4, seed%5 == 4 // not drawn, so that the other seeds stay the same
	w.profile.restores = !w.profile.moves && w.chance(0.5)
	often := func(most float64) float64 {
		if w.chance(0.4) {
			return 0
		}
		return most * w.random.Float64()
	}
	w.carrier.weather = weather{drop: often(0.25), lose: often(0.25), double: often(0.25), alter: often(0.1), delay: often(0.4)}
	for i := range homes {
		s := w.addSite()
		if w.profile.skew {
			w.setClock(s)
		}
		for j := range agentsOfEach {
			a := w.addAgent(s, fmt.Sprintf("%c%d", 'a'+i, j))
			if w.chance(0.3) {
				a.dialect = federation.ActTags
			}
		}
	}
	if w.profile.liars {
		w.oracle.liar = w.sites[homes-1]
	}
	const span = events * longestPause / 2
	for range w.random.IntN(6) {
		from, to := w.random.IntN(homes), w.random.IntN(homes)
		since := w.upTo(span)
		c := cut{from, to, since, since + w.upTo(30*time.Second)}
		w.carrier.cuts = append(w.carrier.cuts, c)
		if w.chance(0.7) { // both ways
			c.from, c.to = to, from
			w.carrier.cuts = append(w.carrier.cuts, c)
		}
	}
	return w
}

// run lets everything happen, and judges the result.
func (w *world) run() {
	for _, s := range w.sites {
		s.start()
	}
	for _, a := range w.agents {
		a.logIn(a.at.live())
	}
	for n := range events {
		w.random = rand.New(rand.NewPCG(w.seed, uint64(n)+2)) // so that a draw changes no later event
		time.Sleep(w.upTo(longestPause))
		synctest.Wait()
		w.event()
		synctest.Wait()
		w.tend()
	}
	w.finish()
}

// finish lets the federation settle, judges it and stops it.
func (w *world) finish() {
	w.end()
	w.lived = w.elapsed()
	w.oracle.judge()
	for _, s := range w.sites {
		if s.live() != nil {
			s.stop()
		}
	}
}

// tend ends the processes that died at a write, and starts the homes that were down for long enough.
func (w *world) tend() {
	for _, s := range w.sites {
		if s.live() != nil && s.live().dead.Load() {
			w.note("%s died at a write", s.id)
			w.carrier.count("crashes at a write")
			s.crash(w.chance(0.5))
			w.upAt[s] = time.Now().Add(w.upTo(longestDown))
		}
		if s.live() == nil && (w.ending || !time.Now().Before(w.upAt[s])) {
			w.note("%s starts", s.id)
			s.start()
		}
	}
}

// event makes one thing happen.
func (w *world) event() {
	at := w.sites[w.random.IntN(len(w.sites))]
	who := w.agents[w.random.IntN(len(w.agents))]
	kind, pick := w.random.Float64(), w.random.Uint64()
	up := at.live() != nil && !at.live().dead.Load()
	below := func(p float64) bool { kind -= p; return kind < 0 }
	switch {
	case below(w.profile.crashes / 2):
		if up {
			w.note("%s crashes", at.id)
			w.carrier.count("crashes")
			at.crash(w.chance(0.5))
			w.upAt[at] = time.Now().Add(w.upTo(longestDown))
		}
	case below(w.profile.crashes / 2):
		if up {
			at.live().dieSoon(pick)
		}
	case below(0.03):
		who.again(pick)
	case below(0.04):
		w.replay(at, pick)
	case below(0.05):
		if up && w.profile.restores && at.backup == "" {
			w.note("%s makes a backup", at.id)
			w.back(at)
		}
	case below(0.06):
		if up && at.backup != "" && time.Since(w.oracle.backups[at]) > restoresAfter {
			w.restore(at)
		}
	case below(0.04):
		if w.profile.moves {
			who.move(at)
		}
	case below(0.06):
		if w.profile.liars {
			w.lie(pick)
		}
	case w.profile.steps && below(0.05):
		w.setClock(at)
		w.carrier.count("clock steps")
		w.note("the clock of %s is stepped: it is off by %s", at.id, time.Duration(at.skew.Load()))
	default:
		who.act()
	}
}

// setClock sets the clock of a home to a wrong time.
func (w *world) setClock(s *site) { s.skew.Store(int64(w.upTo(2*time.Minute) - time.Minute)) }

// replay brings an earlier message to a home again, perhaps to another one than before.
func (w *world) replay(at *site, pick uint64) {
	w.mu.Lock()
	seen := w.carrier.seen
	w.mu.Unlock()
	if len(seen) == 0 {
		return
	}
	e := seen[pick%uint64(len(seen))]
	w.carrier.count("replayed")
	_, _ = at.answer("POST", "https://"+string(at.id)+string(relay.StepsPath), e) // a refusal is as good
}

func (w *world) back(at *site) {
	at.backup = at.copyRecord(true)
	w.oracle.backups[at] = time.Now()
}

// restore replaces the record of a home by its backup.
func (w *world) restore(at *site) {
	w.note("%s is restored", at.id)
	w.carrier.count("restores")
	at.stop()
	at.folder, at.backup = at.backup, ""
	w.oracle.restored[at] = append(w.oracle.restored[at], restore{w.oracle.backups[at], time.Now()})
	w.upAt[at] = time.Now().Add(w.upTo(longestDown))
}

// end lets the faults stop, and the homes do the rest of their work.
func (w *world) end() {
	w.ending = true
	w.carrier.calm.Store(true)
	w.note("the faults stop")
	w.drain()
	// Homes compare their histories each day too. Only that comparison brings a restored home a step
	// that it submitted before, and that reached the home of its handoff after the comparison at the
	// start. Otherwise only the comparisons at a start are judged, after one restore.
	restores := 0
	for _, all := range w.oracle.restored {
		restores += len(all)
	}
	if len(w.failures) == 0 && (restores > 1 || w.oracle.lacksStep()) {
		w.compare()
		w.drain()
	}
}

// compare lets each home compare its history with each other one.
func (w *world) compare() {
	for _, s := range w.sites {
		for _, peer := range s.live().peers {
			if _, err := peer.CompareNow(w.ctx); err != nil {
				w.fail("compared", "%s with %s: %v", s.id, peer.Home(), err)
			}
		}
	}
}

// drain waits until each deadline has passed and no work is pending.
func (w *world) drain() {
	quiet := 0
	for begun := time.Now(); quiet < quietSteps; {
		synctest.Wait()
		for _, s := range w.sites {
			if s.live() != nil {
				s.live().liveOn()
			}
		}
		w.tend()
		unanswered := false
		for _, a := range w.agents {
			unanswered = a.retry() || unanswered
			unanswered = a.moveOn() || unanswered
		}
		time.Sleep(drainStep)
		synctest.Wait()
		if quiet++; unanswered || time.Now().Before(w.lastEnd) || w.pending() != "" {
			quiet = 0
		}
		if time.Since(begun) > longestDrain {
			w.fail("drained", "after %s: %s", longestDrain, w.pending())
			return
		}
	}
}

// pending returns the work that is not done yet, "" for none.
func (w *world) pending() string {
	var all []string
	for _, s := range w.sites {
		if s.live() == nil {
			all = append(all, string(s.id)+" is down")
			continue
		}
		for _, name := range append(w.otherThan(s), federation.UnroutedLink) {
			rows, err := s.live().record.Outbox(w.ctx, name, federation.Delivery{}, 1)
			if err != nil || len(rows) > 0 {
				all = append(all, fmt.Sprintf("%s owes %s %v %v", s.id, name, refs(rows), err))
			}
			waiting, err := s.live().record.ListPending(w.ctx, federation.HomeID(name), 1)
			if err != nil || len(waiting) > 0 {
				all = append(all, fmt.Sprintf("%s awaits a ruling of %s%s %v", s.id, name, held(waiting), err))
			}
		}
	}
	return strings.Join(all, "; ")
}

func held(waiting []federation.Pending) (all string) {
	for _, p := range waiting {
		all += fmt.Sprintf(" on %s of %s", p.Event.Verb, short(p.Event.Handoff))
	}
	return all
}

func refs(rows []federation.Delivery) (all []string) {
	for _, d := range rows {
		all = append(all, fmt.Sprintf("%s of %s: %s", d.Entry.Event.Verb, short(d.Handoff()), d.Reason))
	}
	return all
}

func (w *world) otherThan(s *site) (names []string) {
	for _, other := range w.sites {
		if other != s {
			names = append(names, string(other.id))
		}
	}
	return names
}

// simulate runs the federation of a seed, and returns it.
func (r *run) simulate(t *testing.T, seed uint64) (w *world) {
	t.Helper()
	r.inBubble(t, func(ctx context.Context, folder string) {
		w = newWorld(ctx, r.empty, folder, seed)
		w.run() //nolint:contextcheck // the world has it
	})
	return w
}

// inBubble runs a federation with its own clock and a folder for its records.
func (r *run) inBubble(t *testing.T, do func(ctx context.Context, folder string)) {
	t.Helper()
	folder, err := os.MkdirTemp(r.folder, "federation-") //nolint:usetesting // each federation removes its records
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	synctest.Test(t, func(t *testing.T) { do(t.Context(), folder) })
}
