package engine

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed schema/*.sql schema/postgres/*.sql
var schema embed.FS

// migration brings a record from the version before it to its own.
type migration struct {
	version    int
	name       string
	statements string
}

// The folders of the migrations of each database, in the schema of the record and in that of
// [Tables].
const (
	sqliteSchema   = "schema"
	postgresSchema = "schema/postgres"
)

// migrationsOf returns the migrations in a folder: each creates or changes the tables of the
// record, and then the tables of a network; nil is none.
func migrationsOf(folder string, tables Tables) ([]migration, error) {
	known, err := readMigrations(schema, folder)
	if err != nil || tables == nil {
		return known, err
	}
	added, err := readMigrations(tables.SQL().Schema, folder)
	if err != nil {
		return nil, fmt.Errorf("tables of a network: %w", err)
	}
	if len(added) != len(known) {
		return nil, fmt.Errorf("tables of a network have %d migrations in %s, and the record has %d: give them one for each", len(added), folder, len(known))
	}
	for i, m := range added {
		known[i].statements += "\n" + m.statements
	}
	return known, nil
}

// readMigrations returns the migrations in a folder in the order of their versions. The name
// of a file begins with its version, in four digits; versions count from 1 without a gap.
func readMigrations(files fs.FS, folder string) ([]migration, error) {
	names, err := fs.Glob(files, folder+"/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	known := make([]migration, len(names))
	for i, name := range names {
		digits, _, _ := strings.Cut(path.Base(name), "_")
		if version, err := strconv.Atoi(digits); err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: its name has to begin with %04d", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		known[i] = migration{version: i + 1, name: name, statements: string(text)}
	}
	return known, nil
}

// latest returns the version that the migrations lead to.
func latest(known []migration) int { return len(known) }

// after returns the migrations that a record of a version needs.
func after(version int, known []migration) []migration { return known[version:] }

// asker reads one row: a database or a connection.
type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// PlanOn reports what a migration of the record on a connection would do. It returns a
// [ForeignError] for a database of another program.
func PlanOn(ctx context.Context, on asker, d Dialect) (Upgrade, error) {
	folder, versionOf := sqliteSchema, schemaVersion
	if d == InPostgres {
		folder, versionOf = postgresSchema, postgresVersion
	}
	known, err := migrationsOf(folder, nil)
	if err != nil {
		return Upgrade{}, err
	}
	version, err := versionOf(ctx, on)
	return Upgrade{From: version, To: latest(known)}, err
}

// Upgrade reports what the migration of a record did, or would do.
type Upgrade struct {
	From   int    `json:"from"` // version of the record before; 0 for an empty one
	To     int    `json:"to"`
	Backup string `json:"backup,omitempty"` // path of the copy that was made before
	// Estimate is what a planned migration of a record in a file takes; nil for any other.
	Estimate *Estimate `json:"estimate,omitempty"`
}

// CheckNewer refuses a record of a newer version than this program knows.
func (u Upgrade) CheckNewer() error {
	if u.From > u.To {
		return fmt.Errorf("the record is of version %d and this program knows versions up to %d: run a newer one", u.From, u.To)
	}
	return nil
}

// Sentence returns a sentence about an upgrade that was done, or with dry would be. Only the
// record in a file is copied before.
func (u Upgrade) Sentence(dry, inFile bool) string {
	switch {
	case u.From == u.To:
		return fmt.Sprintf("the record is of version %d: nothing to do", u.To)
	case dry && u.From == 0:
		return fmt.Sprintf("would make a record of version %d", u.To)
	case dry && inFile:
		said := fmt.Sprintf("would copy the record of version %d, and bring it to version %d", u.From, u.To)
		if u.Estimate != nil {
			said += ": " + u.Estimate.String()
		}
		return said
	case dry:
		return fmt.Sprintf("would bring the record from version %d to version %d", u.From, u.To)
	case u.From == 0:
		return fmt.Sprintf("made a record of version %d", u.To)
	case u.Backup == "":
		return fmt.Sprintf("brought the record from version %d to version %d", u.From, u.To)
	}
	return fmt.Sprintf("brought the record from version %d to version %d; what was before is %s", u.From, u.To, u.Backup)
}
