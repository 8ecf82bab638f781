// Package simulation_test runs whole federations of homes under faults, in one process and without
// a network. Each home has the real record, home, routing, delivery and exchange with other homes.
// The clock is that of a bubble of testing/synctest, and the carrier of messages is a part of the
// test: it drops, delays, doubles and alters messages, and loses answers. Homes crash between two
// moments or at a write, lose unsynced writes in power cuts, get older copies of their records back,
// have wrong clocks and lie. Agents offer and work meanwhile.
//
// When the faults have stopped and no work is pending, an oracle judges the federation from outside:
// by the answers that the agents got, and by the logs and inboxes of the homes.
//
// A seed determines everything except the order of goroutines at one moment, which rarely matters.
// BATON_SEEDS=4711 runs one seed and shows its events, and BATON_SEEDS=1-1000 runs many.
//
// A smaller federation of two homes is explored exhaustively: a fixed scenario runs with each fault at
// each of its points. BATON_SCHEDULE=accept/drop.a-b.2 runs one schedule and shows its events.
package simulation_test

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/store/storetest"
)

// regressions are seeds that find an earlier fault of the product. They run first, each time.
var regressions = []uint64{22, 24, 25, 28, 50, 66, 111, 116, 237, 243, 257, 318, 562, 973, 1642}

const (
	// The seeds of a run without BATON_SEEDS, and the longest time of it: with the race detector, on a
	// machine with other work, a seed takes some seconds.
	seeds    = 200
	gateTime = 60 * time.Second
	// A seed that violates a rule runs again so often, to show whether it does so each time.
	repeated = 3
)

// verbose keeps the events of a federation for people.
var verbose bool

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)   // so that the goroutines of a federation take turns in one order
	debug.SetGCPercent(400) // the processes are short, and the machine has the memory
	os.Exit(m.Run())
}

func TestFederations(t *testing.T) {
	chosen := os.Getenv("BATON_SEEDS")
	if chosen == "" {
		others := slices.DeleteFunc(between(1, seeds), func(seed uint64) bool { return slices.Contains(regressions, seed) })
		newRun(t).seeds(t, slices.Concat(regressions, others), time.After(gateTime))
		return
	}
	first, last, isRange := strings.Cut(chosen, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	to, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	verbose = !isRange
	newRun(t).seeds(t, between(from, to), nil)
}

func between(from, to uint64) (all []uint64) {
	for seed := from; seed <= to; seed++ {
		all = append(all, seed)
	}
	return all
}

// run is a run of many seeds, with everything that happened in them.
type run struct {
	tally

	folder, empty      string // the latter has a record without rows
	process, processes int    // the number of this one, and of all that share the federations; 0 of 0 for no sharing
}

func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{folder: storetest.TempDir(t), empty: storetest.TempDir(t), tally: tally{Counts: map[string]int{}}}
	r.readShare(t)
	if err := storetest.OpenIn(t, r.empty).Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

// seeds runs seeds until one violates a rule, or a channel has a token.
func (r *run) seeds(t *testing.T, all []uint64, enough <-chan time.Time) {
	t.Helper()
	begun := time.Now()
	if len(all) == 1 || !r.shared(t) {
		r.each(t, all, enough)
	}
	took := time.Since(begun)
	t.Logf("%d federations in %s (%.0f in two minutes): %d steps, %d acknowledged and %d refused at once, in %s of simulated time; %v",
		r.Federations, took.Round(time.Millisecond), float64(r.Federations)/took.Seconds()*120, r.Steps, r.Acknowledged, r.Refused, r.Lived.Round(time.Second), r.Counts)
}

// each runs the seeds of this process.
func (r *run) each(t *testing.T, all []uint64, enough <-chan time.Time) {
	t.Helper()
	defer r.report(t)
	for i, seed := range all {
		if !r.mine(i) {
			continue
		}
		r.seed(t, seed)
		select {
		case <-enough:
			return
		default:
		}
		if t.Failed() {
			return
		}
	}
}

func (r *run) seed(t *testing.T, seed uint64) {
	t.Helper()
	w := r.simulate(t, seed)
	for _, failure := range w.failures {
		t.Errorf("seed %d: %s", seed, failure)
	}
	if len(w.failures) > 0 {
		again := 0
		for range repeated {
			if len(r.simulate(t, seed).failures) > 0 {
				again++
			}
		}
		t.Errorf("again (%d of %d times): BATON_SEEDS=%d go test ./federation/simulation -run TestFederations", again, repeated, seed)
	}
	for _, note := range w.notes {
		t.Log(note)
	}
	r.count(w)
}

// count adds the counts of a federation.
func (r *run) count(w *world) {
	for _, a := range w.agents {
		for _, each := range a.sent {
			switch r.Steps++; {
			case each.acked:
				r.Acknowledged++
			case each.refused != "":
				r.Refused++
			}
		}
	}
	r.Federations++
	r.Lived += w.lived
	for what, n := range w.carrier.counts {
		r.Counts[what] += n
	}
}

// newFolder returns a folder with a record without rows.
func (w *world) newFolder(name string) string {
	folder, err := os.MkdirTemp(w.folder, name+"-")
	if err == nil {
		err = copyFile(filepath.Join(w.empty, recordFile), filepath.Join(folder, recordFile))
	}
	if err != nil {
		panic(err)
	}
	return folder
}
