package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

//go:embed schema/*.sql schema/postgres/*.sql
var schema embed.FS

// pageBytes of 8 KiB hold a few events each, and gave the best sustained rate at a
// million of them.
const pageBytes = 8192

// applicationID is in the header of every record; the first migration writes it.
const applicationID = 0x42746e31

// errForeign is a database that some other program keeps.
var errForeign = errors.New("the file is an SQLite database of another program; move it away or name another")

// migrate brings the schema to the newest version that this program knows, each
// step in a transaction of its own with the number that says it was taken: when the
// process ends in between, the next start goes on from there. A record that holds
// something is copied first.
func migrate(ctx context.Context, conn *sql.Conn, f file, now time.Time) (Upgrade, error) {
	steps, err := schemaSteps()
	if err != nil {
		return Upgrade{}, err
	}
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return Upgrade{}, err
	}
	done := Upgrade{From: version, To: len(steps)}
	if version > done.To {
		return done, newerError(version, done.To)
	}
	if err := setWAL(ctx, conn); err != nil {
		return done, err
	}
	if version > 0 && version < done.To {
		if done.Backup, err = keepVersion(ctx, conn, f, version, now); err != nil {
			return done, fmt.Errorf("copy the record before its upgrade: %w", err)
		}
	}
	for i, name := range steps[version:] {
		text, err := schema.ReadFile(name)
		if err != nil {
			return done, err
		}
		step := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\nPRAGMA user_version = %d;\nCOMMIT;", text, version+i+1)
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return done, fmt.Errorf("apply %s: %w", name, err)
		}
	}
	return done, nil
}

// schemaSteps returns the names of the migrations, that of version 1 first.
func schemaSteps() ([]string, error) {
	return fs.Glob(schema, "schema/*.sql") // sorted, and numbered from 0001
}

func newerError(version, known int) error {
	return fmt.Errorf("the record is of version %d and this program knows versions up to %d: run a newer one", version, known)
}

// setWAL writes to the file, so it comes after the checks. The size of a page is
// settled with the first one.
func setWAL(ctx context.Context, conn *sql.Conn) error {
	var mode string
	query := fmt.Sprintf("PRAGMA page_size = %d; PRAGMA journal_mode = WAL", pageBytes)
	if err := conn.QueryRowContext(ctx, query).Scan(&mode); err != nil {
		return fmt.Errorf("set journal mode: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("the file system has no shared memory for SQLite (journal mode %q): put the record on a local disk", mode)
	}
	return nil
}

// asker is what reads one row: a database or a connection.
type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// schemaVersion returns 0 for an empty file, and an error for a file that some
// other program keeps.
func schemaVersion(ctx context.Context, conn asker) (int, error) {
	var version, application, tables int
	err := conn.QueryRowContext(ctx, `SELECT v.user_version, a.application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version v, pragma_application_id a`).Scan(&version, &application, &tables)
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	if application != applicationID && (application != 0 || version != 0 || tables != 0) {
		return 0, errForeign
	}
	return version, nil
}
