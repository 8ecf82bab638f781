package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// TestMain makes this binary the program as well: the "baton" started by tests is
// the real main, with the race detector if the tests have it.
func TestMain(m *testing.M) {
	name, value, _ := strings.Cut(quickExit, "=")
	if err := os.Setenv(name, value); err != nil {
		panic(err)
	}
	federationtest.RunParallel(6) // most tests wait for processes
	testscript.Main(m, map[string]func(){program: mortal})
}

// quickExit is in the environment of each program that the tests start: with the race
// detector it would wait a second before it ends.
const quickExit = "GORACE=atexit_sleep_ms=0"

func TestScripts(t *testing.T) {
	example, err := filepath.Abs(filepath.Join("..", "..", "federation", "passport", "testdata", "passport.json"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"ready": ready, "keep": keep},
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, quickExit, "PASSPORT="+example)
			return nil
		},
	})
}

// ready waits until the gateway of a script is ready, chosen by the flags of
// healthcheck; with "!" until it serves and only one thing is down, as the other links
// may be for a moment after the start.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		err := ts.Exec(program, append([]string{"healthcheck"}, args...)...)
		if err == nil && !neg || err != nil && neg && strings.Count(ts.ReadFile("stderr"), "down") == 1 {
			return
		}
		<-tick.C
	}
	ts.Fatalf("waited %s for the gateway: %s", patience, ts.ReadFile("stderr"))
}

// keep puts the output of the last command into a variable.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}
