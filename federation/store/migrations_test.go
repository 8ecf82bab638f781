package store_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A record can be moved from one database to the other, so both have every version.
func TestMigrationsExistForBothDatabases(t *testing.T) {
	want := versions(t, "engine/schema/*.sql")
	for _, files := range []string{"engine/schema/postgres/*.sql", "registry/schema/*.sql", "registry/schema/postgres/*.sql"} {
		if diff := cmp.Diff(want, versions(t, files)); diff != "" {
			t.Errorf("versions of %s (-want +got):\n%s", files, diff)
		}
	}
}

func versions(t *testing.T, files string) []string {
	t.Helper()
	found, err := filepath.Glob(files)
	if err != nil || len(found) == 0 {
		t.Fatalf("%d migrations in %s, %v", len(found), files, err)
	}
	var numbers []string
	for _, file := range found {
		numbers = append(numbers, filepath.Base(file)[:4])
	}
	return numbers
}
