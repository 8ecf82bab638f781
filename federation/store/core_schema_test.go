package store_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func registryTables() []string {
	return []string{"agent", "agent_key", "agent_skill", "consent", "message"}
}

func tablesOf(t *testing.T, dir string) []string {
	t.Helper()
	found, err := raw(t, dir).QueryContext(t.Context(), `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	var names []string
	for found.Next() {
		var name string
		if err := found.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCoreSchemaHasNoNetworkTables(t *testing.T) {
	t.Parallel()
	core, whole := t.TempDir(), t.TempDir()
	for dir, tables := range map[string]engine.Tables{core: nil, whole: registry.Tables{}} {
		if done, err := engine.Migrate(t.Context(), at(dir), tables, federationtest.At(1), nil); err != nil || done.To != newest(t) {
			t.Fatalf("Migrate: %+v, %v, want version %d", done, err, newest(t))
		}
	}
	added := slices.DeleteFunc(tablesOf(t, whole), func(name string) bool { return slices.Contains(tablesOf(t, core), name) })
	slices.Sort(added)
	if !slices.Equal(added, registryTables()) {
		t.Errorf("the registry adds %v, want %v", added, registryTables())
	}
	if own := tablesOf(t, core); len(own) < 40 {
		t.Errorf("the core has %d tables: %v", len(own), own)
	}
}

func TestAppendWorksWithoutNetworkTables(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			record := bare(t, database)
			opened := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
			answered := federationtest.File(federationtest.Step(2, opened.Event, federation.Accept, bob), opened.View)
			for _, f := range []federation.Filing{opened, answered} {
				if _, err := record.Append(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
			v, err := record.View(t.Context(), opened.View.ID)
			if err != nil || v.State != federation.Assigned || v.Version != 2 {
				t.Errorf("the view is %+v, %v, want an assigned handoff at version 2", v, err)
			}
		})
	}
}

// unmade are tables without a migration.
type unmade struct{ registry.Tables }

func (unmade) SQL() engine.SQL { return engine.SQL{Schema: fstest.MapFS{}} }

func TestTablesNeedAMigrationPerVersion(t *testing.T) {
	t.Parallel()
	_, err := engine.Migrate(t.Context(), at(t.TempDir()), unmade{}, federationtest.At(1), nil)
	if err == nil || !strings.Contains(err.Error(), "0 migrations") {
		t.Errorf("Migrate with tables that nothing makes: %v", err)
	}
}
