//go:build interop

package main_test

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

func TestScriptsOnPostgres(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	dsn := server.Schema(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "postgres"),
		RequireExplicitExec: true,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"ready": ready},
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, quickExit, "DSN="+dsn)
			return nil
		},
	})
}
