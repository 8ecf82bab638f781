//go:build interop

package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/federation/store/postgrestest"
)

func hasNoTriggers(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	openPostgres(t, dsn)
	got := rowsOf(t, "pgx", dsn, `SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace ORDER BY t.tgname`)
	if diff := cmp.Diff(ofParty, got); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
	functions := rowsOf(t, "pgx", dsn, `SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prorettype = 'trigger'::regtype ORDER BY proname`)
	if diff := cmp.Diff([]string{"handoff_opened", "handoff_pruned"}, functions); diff != "" {
		t.Errorf("functions of triggers (-want +got):\n%s", diff)
	}
}

func forgetsAttempts(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	checkAttempts(t, openPostgres(t, dsn), func() string { return rowsOf(t, "pgx", dsn, countAttempts)[0] })
}
