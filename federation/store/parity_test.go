package store_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A record can be moved from one database to the other, so both have every version that
// came after PostgreSQL did.
func TestEachVersionIsMadeInBothDatabases(t *testing.T) {
	files, err := filepath.Glob("schema/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	others, err := filepath.Glob("schema/postgres/*.sql")
	if err != nil || len(others) == 0 {
		t.Fatalf("%d migrations for PostgreSQL, %v", len(others), err)
	}
	first := filepath.Base(others[0])[:4]
	var wanted, got []string
	for _, file := range files {
		if number := filepath.Base(file)[:4]; number >= first {
			wanted = append(wanted, number)
		}
	}
	for _, file := range others {
		got = append(got, filepath.Base(file)[:4])
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("versions that schema/postgres makes (-want +got):\n%s", diff)
	}
}
