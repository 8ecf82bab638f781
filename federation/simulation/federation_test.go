// Package simulation_test runs whole federations of homes under faults, in one process and without
// a network. Each home has the real record, home, routing, delivery and exchange with other homes.
// The clock is that of a bubble of testing/synctest, and the carrier of messages is a part of the
// test: it drops, delays, doubles and alters messages, and loses answers. Homes crash between two
// moments or at a write, get older copies of their records back, have wrong clocks and lie. Agents
// offer and work meanwhile.
//
// When the faults have stopped and no work is pending, an oracle judges the federation from outside:
// by the answers that the agents got, and by the logs and inboxes of the homes.
//
// A seed determines everything. BATON_SEEDS=4711 runs one seed and shows its events, and
// BATON_SEEDS=1-1000 runs many.
package simulation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"baton/federation/store/storetest"
)

// regressions are seeds that found a fault. They run first, each time.
var regressions = []uint64{}

// seeds is the number of seeds of a run without BATON_SEEDS.
const seeds = 200

// verbose keeps the events of a federation for people.
var verbose bool

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // so that the goroutines of a federation take turns in one order
	os.Exit(m.Run())
}

func TestFederations(t *testing.T) {
	from, to := uint64(1), uint64(seeds)
	chosen := os.Getenv("BATON_SEEDS")
	if chosen != "" {
		first, last, isRange := strings.Cut(chosen, "-")
		var err error
		if from, err = strconv.ParseUint(first, 10, 64); err != nil {
			t.Fatal(err)
		}
		if to = from; isRange {
			if to, err = strconv.ParseUint(last, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		verbose = !isRange
	}
	all := slices.Clone(regressions)
	if chosen != "" {
		all = nil
	}
	for seed := from; seed <= to; seed++ {
		all = append(all, seed)
	}
	runSeeds(t, all)
}

// mostFailed bounds the seeds that a run reports.
const mostFailed = 5

// total is what happened in all federations of a run.
type total struct {
	mu                  sync.Mutex
	failed              int
	steps, acked, lived int
	counts              map[string]int
}

// runSeeds runs seeds, on all processors, and reports those that violate a rule.
func runSeeds(t *testing.T, all []uint64) {
	t.Helper()
	empty := storetest.TempDir(t)
	if err := storetest.OpenIn(t, empty).Close(); err != nil {
		t.Fatal(err)
	}
	begun, sum := time.Now(), total{counts: map[string]int{}}
	var next atomic.Int64
	t.Run("on", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprintf("processor %d", i), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1); int(n) <= len(all) && sum.failed < mostFailed; n = next.Add(1) {
					runSeed(t, empty, all[n-1], &sum)
				}
			})
		}
	})
	took := time.Since(begun)
	t.Logf("%d federations in %s (%.0f in two minutes): %d steps, %d acknowledged, in %s of simulated time; %v",
		len(all), took.Round(time.Millisecond), float64(len(all))/took.Seconds()*120, sum.steps, sum.acked, time.Duration(sum.lived)*time.Second, sum.counts)
}

// runSeed runs the federation of one seed.
func runSeed(t *testing.T, empty string, seed uint64, sum *total) {
	t.Helper()
	folder, err := os.MkdirTemp(storetest.TempDir(t), "federation-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	w := simulate(t, empty, folder, seed)
	for _, failure := range w.failures {
		t.Errorf("seed %d: %s", seed, failure)
	}
	if len(w.failures) > 0 {
		t.Errorf("again: BATON_SEEDS=%d go test ./federation/simulation -run TestFederations", seed)
	}
	if len(w.failures) > 0 {
		sum.failed++
	}
	for _, note := range w.notes {
		t.Log(note)
	}
	sum.mu.Lock()
	defer sum.mu.Unlock()
	for _, a := range w.agents {
		for _, each := range a.sent {
			sum.steps++
			if each.acked {
				sum.acked++
			}
		}
	}
	sum.lived += int(w.lived.Seconds())
	for what, n := range w.carrier.counts {
		sum.counts[what] += n
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

// A seed that found a fault must find it again.
func TestASeedHasOneResult(t *testing.T) {
	empty := storetest.TempDir(t)
	if err := storetest.OpenIn(t, empty).Close(); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(repeated) {
		var results []string
		for range 2 {
			w := simulate(t, empty, storetest.TempDir(t), seed)
			results = append(results, w.digest)
		}
		if results[0] != results[1] {
			t.Errorf("seed %d has the results %s and %s", seed, results[0], results[1])
		}
	}
}

// repeated is how many seeds run twice.
const repeated = 20
