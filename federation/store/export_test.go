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
	return slices.Concat(slices.Collect(maps.Keys(s.reads.kept)), slices.Collect(maps.Keys(s.writes.writer.kept)))
}
