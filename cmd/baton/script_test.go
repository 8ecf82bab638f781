package main_test

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	main "baton/cmd/baton"
)

// TestMain makes this binary the program as well: what the tests start as "baton"
// is the real main, with the race detector where the tests have it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){program: main.Main})
}

// quickExit is for the environment of a program with the race detector, which
// otherwise waits a second before it ends.
const quickExit = "GORACE=atexit_sleep_ms=0"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, quickExit)
			return nil
		},
	})
}
