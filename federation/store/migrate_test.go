package store_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"baton/federation/federationtest"
	"baton/federation/store"
)

// laterProgram returns the migrations of a program that knows one version more than this one:
// its last migration adds a column.
func laterProgram(t *testing.T) fstest.MapFS {
	t.Helper()
	first, err := os.ReadFile("schema/0001_record.sql")
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{
		"schema/0001_record.sql": {Data: first},
		"schema/0002_colour.sql": {Data: []byte("ALTER TABLE handoff ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';")},
	}
}

func TestAMigrationKeepsWhatTheRecordHas(t *testing.T) {
	dir := full(t)
	later := laterProgram(t)
	if done, err := store.MigrateBy(t.Context(), later, at(dir), federationtest.At(7)); err != nil || done.From != 1 || done.To != 2 {
		t.Fatalf("MigrateBy = %+v, %v", done, err)
	}
	var handoffs int
	if err := raw(t, dir).QueryRowContext(t.Context(), "SELECT count(*) FROM handoff WHERE colour = 'red'").Scan(&handoffs); err != nil || handoffs != 42 {
		t.Errorf("%d handoffs have the new column, %v, want 42", handoffs, err)
	}
	if verdict := sound(t, raw(t, dir)); verdict != "ok" {
		t.Errorf("integrity: %s", verdict)
	}
	if _, err := store.Open(t.Context(), at(dir), prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "of version 2 and this program knows versions up to 1") {
		t.Errorf("Open by the older program: %v", err)
	}
}

func TestAnEmptyRecordGetsAllMigrations(t *testing.T) {
	dir := t.TempDir()
	if done, err := store.MigrateBy(t.Context(), laterProgram(t), at(dir), federationtest.At(7)); err != nil || done != (store.Upgrade{From: 0, To: 2}) {
		t.Errorf("MigrateBy = %+v, %v", done, err)
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	dir := full(t)
	later := laterProgram(t)
	later["schema/0002_colour.sql"].Data = append(later["schema/0002_colour.sql"].Data, "INSERT INTO nowhere VALUES (1);"...)
	if done, err := store.MigrateBy(t.Context(), later, at(dir), federationtest.At(7)); err == nil || !strings.Contains(err.Error(), "0002_colour.sql") {
		t.Errorf("MigrateBy = %+v, %v, want an error with the name of the migration", done, err)
	}
	if planned, err := store.Plan(t.Context(), at(dir)); err != nil || planned != (store.Upgrade{From: 1, To: 1}) {
		t.Errorf("Plan = %+v, %v", planned, err)
	}
	if report := examine(t, dir); len(report.Damage) > 0 {
		t.Errorf("the record is damaged: %v", report.Damage)
	}
}

func TestMigrationsAreNumberedWithoutAGap(t *testing.T) {
	for _, name := range []string{"schema/0003_gap.sql", "schema/0001_twice.sql", "schema/colour.sql"} {
		later := laterProgram(t)
		later[name] = later["schema/0002_colour.sql"]
		delete(later, "schema/0002_colour.sql")
		if _, err := store.MigrateBy(t.Context(), later, at(t.TempDir()), federationtest.At(7)); err == nil || !strings.Contains(err.Error(), "has to begin with 000") {
			t.Errorf("MigrateBy with %s: %v", name, err)
		}
	}
}

func TestBothDatabasesHaveTheSameVersions(t *testing.T) {
	names := map[string][]string{}
	for _, folder := range []string{"schema", "schema/postgres"} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !entry.IsDir() {
				names[folder] = append(names[folder], entry.Name())
			}
		}
	}
	if diff := cmp.Diff(names["schema"], names["schema/postgres"]); diff != "" {
		t.Errorf("migrations (-sqlite +postgres):\n%s", diff)
	}
}
