package store

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// MigrateBy is Migrate by a program that has other migrations, in the folder schema.
func MigrateBy(ctx context.Context, files fs.FS, path string, now time.Time) (Upgrade, error) {
	known, err := readMigrations(files, "schema")
	if err != nil {
		return Upgrade{}, err
	}
	return migrateFile(ctx, path, known, now)
}

// PlanBy is Plan by a program that has other migrations.
func PlanBy(ctx context.Context, files fs.FS, path string) (Upgrade, error) {
	known, err := readMigrations(files, "schema")
	if err != nil {
		return Upgrade{}, err
	}
	return planFile(ctx, path, known)
}

// Queries returns all that was asked of a record so far.
func (s *Record) Queries() []string {
	return slices.Concat(slices.Collect(maps.Keys(s.reads.kept)), slices.Collect(maps.Keys(s.writes.pen.kept)))
}

// Arranged is a statement that was put, for tests: of which write it is, what it does, what
// about, and whether it adds a row.
type Arranged struct {
	Write int
	Query string
	About string
	Row   bool
}

// Arrange returns for each statement in which group it is sent.
func Arrange(all []Arranged) []int {
	put := make([]kept, len(all))
	for i, each := range all {
		put[i] = kept{query: each.Query, args: []any{each.About, i}, row: each.Row, write: each.Write}
	}
	places := make([]int, len(all))
	for place, each := range arrange(put) {
		for _, args := range each.rows {
			i, _ := args[1].(int)
			places[i] = place
		}
	}
	return places
}
