package engine

import (
	"context"
	"io/fs"
	"time"
)

// MigrateBy is Migrate by a program with other migrations, in the folder schema.
func MigrateBy(ctx context.Context, files fs.FS, path string, now time.Time) (Upgrade, error) {
	known, err := readMigrations(files, "schema")
	if err != nil {
		return Upgrade{}, err
	}
	return migrateFile(ctx, path, known, now, nil)
}

// PlanBy is Plan by a program with other migrations.
func PlanBy(ctx context.Context, files fs.FS, path string) (Upgrade, error) {
	known, err := readMigrations(files, "schema")
	if err != nil {
		return Upgrade{}, err
	}
	return planFile(ctx, path, known)
}
