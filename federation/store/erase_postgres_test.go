//go:build interop

package store_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func erasesOnPostgres(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	record := openPostgres(t, dsn)
	db, err := engine.ConnectPostgres(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	erases(t, record, func() (found []string) {
		tables, err := db.QueryContext(t.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`)
		if err != nil {
			t.Fatal(err)
		}
		defer tables.Close()
		for tables.Next() {
			var name, rows string
			err := tables.Scan(&name)
			if err == nil {
				err = db.QueryRowContext(t.Context(), `SELECT coalesce(string_agg(t::text, ' '), '') FROM `+name+` t`).Scan(&rows)
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(rows, marker) || strings.Contains(rows, hex.EncodeToString([]byte(marker))) {
				found = append(found, name)
			}
		}
		return found
	})
	report, err := fsck.ExaminePostgres(t.Context(), dsn, registry.Tables{}, rules{})
	if err != nil || len(report.Damage) > 0 || report.Erased != 5 {
		t.Errorf("the record after the erasure: %+v, %v", report, err)
	}
}
