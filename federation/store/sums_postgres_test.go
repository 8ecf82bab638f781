//go:build interop

package store_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

func hasNoTriggers(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Schema(t)
	openPostgres(t, dsn)
	for _, query := range []string{
		`SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace`,
		`SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prorettype = 'trigger'::regtype`,
	} {
		if n := rowsOf(t, "pgx", dsn, query)[0]; n != "0" {
			t.Errorf("%s: %s", query, n)
		}
	}
}

func forgetsAttempts(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	checkAttempts(t, openPostgres(t, dsn), func() string { return rowsOf(t, "pgx", dsn, countAttempts)[0] })
}
