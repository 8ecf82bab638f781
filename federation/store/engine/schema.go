package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// These are the application ids in the header of an SQLite file. The first migration writes
// applicationID; the others are of programs older than version 1 of the schema.
const (
	applicationID      = 0x42746e33 // "Btn3"
	developmentID      = 0x42746e32 // "Btn2"
	firstDevelopmentID = 0x42746e31 // "Btn1"
)

// ForeignError reports a database of another program, and says what to do about it.
type ForeignError string

// Error implements error.
func (e ForeignError) Error() string { return string(e) }

// Databases of other programs.
const (
	errForeignFile   = ForeignError("the file is an SQLite database of another program; move it away or name another")
	errForeignSchema = ForeignError("there are tables of another program: name an empty schema in search_path, or another database")
)

// errDevelopment reports a record of a program older than version 1 of the schema.
var errDevelopment = errors.New("a development version wrote this record, before the first version of its schema: this program cannot read it; " +
	"keep it with the program that wrote it, and name an empty record")

// migrate brings the schema of a file to the newest version that this program knows. Each
// migration commits in a transaction of its own with its number, so that the next start
// continues after an interruption. A record that is not empty is copied first.
func migrate(ctx context.Context, conn *sql.Conn, f file, known []migration, now time.Time) (Upgrade, error) {
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return Upgrade{}, err
	}
	done := Upgrade{From: version, To: latest(known)}
	if err := done.CheckNewer(); err != nil {
		return done, err
	}
	if err := setWAL(ctx, conn); err != nil {
		return done, err
	}
	if version > 0 && version < done.To {
		if done.Backup, err = keepVersion(ctx, conn, f, version, now); err != nil {
			return done, fmt.Errorf("copy the record before its upgrade: %w", err)
		}
	}
	for _, m := range after(version, known) {
		step := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\nPRAGMA user_version = %d;\nCOMMIT;", m.statements, m.version)
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return done, fmt.Errorf("apply %s: %w", m.name, err)
		}
	}
	return done, nil
}

// setWAL writes to the file, so it runs after the checks.
func setWAL(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return fmt.Errorf("set journal mode: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("the file system has no shared memory for SQLite (journal mode %q): put the record on a local disk", mode)
	}
	return nil
}

// schemaVersion returns 0 for an empty file. It returns a [ForeignError] for a database of another
// program, and errDevelopment for a record older than version 1.
func schemaVersion(ctx context.Context, conn asker) (int, error) {
	var version, application, tables int
	err := conn.QueryRowContext(ctx, `SELECT v.user_version, a.application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version v, pragma_application_id a`).Scan(&version, &application, &tables)
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	if application == developmentID || application == firstDevelopmentID {
		return 0, errDevelopment
	}
	if application != applicationID && (application != 0 || version != 0 || tables != 0) {
		return 0, errForeignFile
	}
	return version, nil
}
