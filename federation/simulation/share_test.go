package simulation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// tally is the counts of many federations.
type tally struct {
	Federations                  int
	Steps, Acknowledged, Refused int
	Lived                        time.Duration
	Counts                       map[string]int // of faults
}

func (a *tally) add(b tally) {
	a.Federations += b.Federations
	a.Steps, a.Acknowledged, a.Refused = a.Steps+b.Steps, a.Acknowledged+b.Acknowledged, a.Refused+b.Refused
	a.Lived += b.Lived
	for what, n := range b.Counts {
		a.Counts[what] += n
	}
}

const (
	// The processes of a test that share its federations have this variable: "1/2" is the second of two.
	shareVariable = "BATON_SHARE"
	tallyPrefix   = "tally "
)

// mine reports whether this process runs the n-th federation of the test.
func (r *run) mine(n int) bool { return r.processes == 0 || n%r.processes == r.process }

// shared runs the test in one process for each core, because the federations of one process take
// turns. It returns false in these processes, and on one core: then the caller runs the federations.
func (r *run) shared(t *testing.T) bool {
	t.Helper()
	cores := runtime.NumCPU()
	if r.processes > 0 || cores == 1 {
		return false
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex // of the run and of the test's failure
	var group sync.WaitGroup
	for i := range cores {
		group.Go(func() {
			command := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout="+flag.Lookup("test.timeout").Value.String())
			command.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d", shareVariable, i, cores))
			output, err := command.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			var part tally
			for line := range bytes.Lines(output) {
				if text, ok := bytes.CutPrefix(line, []byte(tallyPrefix)); ok && err == nil {
					err = json.Unmarshal(text, &part)
				}
			}
			if r.add(part); err != nil && ctx.Err() == nil {
				t.Errorf("process %d of %d: %v\n%s", i+1, cores, err, output)
				cancel() // one violation ends the test
			}
		})
	}
	group.Wait()
	return true
}

// report passes the counts of this process to the one that shares the work out.
func (r *run) report(t *testing.T) {
	t.Helper()
	if r.processes == 0 {
		return
	}
	text, err := json.Marshal(r.tally)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(tallyPrefix + string(text))
}

// readShare reads the share of this process.
func (r *run) readShare(t *testing.T) {
	t.Helper()
	share := os.Getenv(shareVariable)
	if share == "" {
		return
	}
	if _, err := fmt.Sscanf(share, "%d/%d", &r.process, &r.processes); err != nil || strings.Count(share, "/") != 1 {
		t.Fatalf("%s=%s: %v", shareVariable, share, err)
	}
}
