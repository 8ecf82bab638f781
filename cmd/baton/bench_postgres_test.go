//go:build interop

package main_test

import (
	"database/sql"
	"testing"

	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

func TestBenchLeavesNoSchemaInPostgres(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Start(t).Schema(t)
	report := runTinyBench(t, dsn)
	checkRows(t, report, benchRows())
	for _, row := range report.Rows {
		if row.Missing != "" {
			t.Errorf("the row %s is not measured: %s", row.Name, row.Missing)
		}
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'baton_bench_%'`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}
