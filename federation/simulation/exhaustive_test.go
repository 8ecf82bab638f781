package simulation_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// scenario is the work of a few agents of two homes.
type scenario struct {
	name  string
	steps []scripted
}

// scripted is a step that an agent makes once, as soon as it can.
type scripted struct {
	by    int // one of the agents of newScript
	verb  federation.Verb
	to    int              // the offeree of an offer; anyone for an open one
	after int              // the step that was made in an earlier round; 0 for none, since each scenario begins with its offer
	shows federation.State // that the home of the agent shows; "" for any
}

// The agents of each scenario: two of the home of the offer, and one of the other home.
const (
	offerer = iota
	remote
	local
	anyone
)

// In each scenario without faults, the remote step is filed first. Faults let the other one win.
var scenarios = []scenario{
	{"accept", []scripted{
		{by: offerer, verb: federation.Offer, to: remote},
		{by: remote, verb: federation.Accept, shows: federation.Offered},
		{by: offerer, verb: federation.Cancel, after: 1},
		{by: remote, verb: federation.Complete, shows: federation.Assigned},
	}},
	{"claim", []scripted{
		{by: offerer, verb: federation.Offer, to: anyone},
		{by: remote, verb: federation.Claim, shows: federation.Open},
		{by: local, verb: federation.Claim, after: 1},
		{by: remote, verb: federation.Complete, shows: federation.Assigned},
		{by: local, verb: federation.Complete, shows: federation.Assigned},
	}},
}

// fault is a fault of a schedule: of the n-th message from one home to another ("a-b"), at the n-th
// write of a home, or of a home before the n-th step of the agents.
type fault struct {
	kind, at string
	n        int
}

func (f fault) String() string { return fmt.Sprintf("%s.%s.%d", f.kind, f.at, f.n) }

// script runs a scenario with the faults of a schedule.
type script struct {
	world    *world
	scenario scenario
	faults   []fault
	round    int
	made     map[int]int    // rounds of the steps that were made
	reached  map[string]int // points at which a kind of fault was possible
	trace    [][]fault      // the possible faults of each point, in order
	met      int            // faults that happened
	late     []func()       // copies of messages that arrive after the work
}

const (
	// The pause after a round in which an agent did something: an answer of the other home is there by then.
	shortRound = 4 * latency
	// The pause after another round.
	longRound = 500 * time.Millisecond
	// The rounds without work after which a scenario is over, and the longest time of one.
	idleRounds    = 3
	longestScript = 3 * time.Minute
)

func newScript(ctx context.Context, empty, folder string, of scenario, faults []fault) *script {
	w := bareWorld(ctx, empty, folder, 1)
	s := &script{world: w, scenario: of, faults: faults, made: map[int]int{}, reached: map[string]int{}}
	w.script = s
	a, b := w.addSite(), w.addSite()
	w.addAgent(a, "a0")
	w.addAgent(b, "b0")
	w.addAgent(a, "a1")
	return s
}

// run runs the scenario under its faults, lets the federation settle, and judges it.
func (s *script) run() {
	w := s.world
	for _, each := range w.sites {
		each.start()
	}
	time.Sleep(longRound) // until the homes are linked
	for idle := 0; idle < idleRounds && w.elapsed() < longestScript; {
		pause := longRound
		if idle == 0 {
			pause = shortRound
		}
		time.Sleep(pause)
		synctest.Wait()
		s.round++
		acted := false
		for i := range w.agents {
			acted = s.act(i) || acted
		}
		synctest.Wait()
		s.wake()
		synctest.Wait()
		w.tend()
		switch {
		case acted:
			idle = 0
		case w.pending() != "" || slices.ContainsFunc(w.agents, (*agent).asks):
			idle = 1
		default:
			idle++
		}
	}
	for _, arrive := range s.late {
		arrive()
	}
	w.finish()
}

// wake wakes the deliveries of each home, as a gateway does after each filing.
func (s *script) wake() {
	for _, at := range s.world.sites {
		p := at.live()
		if p == nil || p.dead.Load() {
			continue
		}
		for _, destination := range append(s.world.otherThan(at), federation.UnroutedLink) {
			p.wakes.Wake(outboxTopic(destination))
		}
	}
}

// act lets an agent repeat a step without an answer, or make its next one. It reports whether there
// was one.
func (s *script) act(by int) bool {
	w := s.world
	a := w.agents[by]
	if p := a.at.live(); p == nil || p.dead.Load() {
		return false
	}
	a.logIn(a.at.live())
	if a.retry() {
		return true
	}
	for i, step := range s.scenario.steps {
		if s.made[i] > 0 || step.by != by || !s.ready(a, step) {
			continue
		}
		for _, at := range w.sites {
			if s.reach(name(at), "crash") != "" && at.live() != nil {
				w.note("%s crashes", at.id)
				w.carrier.count("crashes")
				at.crash(true)
				w.upAt[at] = time.Now().Add(w.upTo(longestDown))
			}
		}
		s.made[i] = s.round
		ev := federation.Event{Verb: step.verb}
		switch {
		case step.verb != federation.Offer:
			ev.Handoff, ev.Dialect = w.offered[0], a.dialect
		case step.to != anyone:
			ev.To = w.agents[step.to].key.DID
		}
		ev = a.sign(ev)
		if step.verb == federation.Offer {
			w.offered = append(w.offered, ev.Handoff)
		}
		a.submit(ev)
		return true
	}
	return false
}

// ready reports whether an agent can make a step now.
func (s *script) ready(a *agent, step scripted) bool {
	if before := s.made[step.after]; step.after > 0 && (before == 0 || before == s.round) {
		return false
	}
	if step.shows == "" {
		return true
	}
	view, err := a.at.live().record.View(s.world.ctx, s.world.offered[0])
	return err == nil && view.State == step.shows && (view.Assignee == "" || view.Assignee == a.key.DID)
}

// reach records a point with its possible faults, and returns the kind of the fault that happens
// there, "" for none.
func (s *script) reach(at string, kinds ...string) string {
	w := s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.carrier.calm.Load() {
		return ""
	}
	s.reached[kinds[0]+at]++
	var possible []fault
	for _, kind := range kinds {
		possible = append(possible, fault{kind, at, s.reached[kinds[0]+at]})
	}
	s.trace = append(s.trace, possible)
	for _, f := range possible {
		if slices.Contains(s.faults, f) {
			s.met++
			return f.kind
		}
	}
	return ""
}

// weather returns the fault of a message.
func (s *script) weather(from, to *site, again func()) (w weather) {
	switch s.reach(name(from)+"-"+name(to), "drop", "lose", "double", "delay", "late") {
	case "drop":
		w.drop = 1
	case "lose":
		w.lose = 1
	case "double":
		w.double = 1
	case "delay":
		w.delay = 1
	case "late":
		s.world.carrier.count("late copies")
		s.world.mu.Lock()
		s.late = append(s.late, again)
		s.world.mu.Unlock()
	}
	return w
}

// write lets a process die before or after its next write.
func (s *script) write(p *process) {
	if kind := s.reach(name(p.site), "before", "after"); kind != "" {
		p.after.Store(kind == "after")
		p.writes.Store(1)
	}
}

func name(s *site) string { return strings.TrimSuffix(string(s.id), ".test") }

// exploration is a run of all schedules up to a number of faults.
type exploration struct {
	*run

	most int // faults of a schedule
}

// missed counts the faults of schedules that did not happen.
const missed = "missed"

// explore runs a scenario with some faults, and then with each further fault after them.
func (x *exploration) explore(t *testing.T, of scenario, faults []fault) {
	t.Helper()
	s := x.schedule(t, of, faults)
	if len(faults) == x.most || t.Failed() {
		return
	}
	after := 0
	if len(faults) > 0 {
		after = 1 + slices.IndexFunc(s.trace, func(possible []fault) bool { return slices.Contains(possible, faults[len(faults)-1]) })
	}
	for i, f := range slices.Concat(s.trace[after:]...) {
		if len(faults) == 0 && !x.mine(i) {
			continue
		}
		if x.explore(t, of, append(slices.Clone(faults), f)); t.Failed() {
			return
		}
	}
}

// schedule runs one schedule.
func (x *exploration) schedule(t *testing.T, of scenario, faults []fault) (s *script) {
	t.Helper()
	x.inBubble(t, func(ctx context.Context, folder string) {
		s = newScript(ctx, x.empty, folder, of, faults)
		s.run() //nolint:contextcheck // the world has it
	})
	parts := []string{of.name}
	for _, f := range faults {
		parts = append(parts, f.String())
	}
	text := strings.Join(parts, "/")
	for _, failure := range s.world.failures {
		t.Errorf("%s: %s", text, failure)
	}
	if len(s.world.failures) > 0 {
		t.Errorf("again: BATON_SCHEDULE=%s go test ./federation/simulation -run TestSchedules", text)
	}
	for _, note := range s.world.notes {
		t.Log(note)
	}
	if s.met < len(faults) {
		x.Counts[missed]++
	}
	if x.process == 0 || len(faults) > 0 { // one process counts the run without faults
		x.count(s.world)
	}
	return s
}

// all runs each schedule of each scenario with a number of faults at most.
func (x *exploration) all(t *testing.T) {
	t.Helper()
	begun := time.Now()
	if !x.shared(t) {
		for _, each := range scenarios {
			x.explore(t, each, nil)
		}
		x.report(t)
	}
	t.Logf("%d schedules with up to %d faults in %s: %d steps, %d acknowledged and %d refused at once; %v",
		x.Federations, x.most, time.Since(begun).Round(time.Millisecond), x.Steps, x.Acknowledged, x.Refused, x.Counts)
}

// BATON_SCHEDULE runs one schedule and shows its events.
func TestSchedules(t *testing.T) {
	x := &exploration{newRun(t), 1}
	chosen := os.Getenv("BATON_SCHEDULE")
	if chosen == "" {
		x.all(t)
		return
	}
	parts := strings.Split(chosen, "/")
	i := slices.IndexFunc(scenarios, func(each scenario) bool { return each.name == parts[0] })
	if i < 0 {
		t.Fatalf("no scenario %q", parts[0])
	}
	var faults []fault
	for _, part := range parts[1:] {
		fields := strings.Split(part, ".")
		if len(fields) != 3 {
			t.Fatalf("%q is no fault", part)
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		faults = append(faults, fault{fields[0], fields[1], n})
	}
	verbose = true
	if s := x.schedule(t, scenarios[i], faults); s.met < len(faults) {
		t.Errorf("%d faults of %d happened", s.met, len(faults))
	}
}
