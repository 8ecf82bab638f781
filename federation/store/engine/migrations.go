package engine

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed schema/*.sql schema/postgres/*.sql
var schema embed.FS

type migration struct {
	version    int
	name       string
	statements string
}

const (
	sqliteSchema   = "schema"
	postgresSchema = "schema/postgres"
)

// Each migration first changes the tables of the record, and then the tables of a network; nil
// means none.
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

// The name of a file begins with its version, in four digits; versions count from 1 without a gap.
func readMigrations(files fs.FS, folder string) ([]migration, error) {
	names, err := fs.Glob(files, folder+"/*.sql")
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

func latest(known []migration) int { return len(known) }

func after(version int, known []migration) []migration { return known[version:] }

type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// PlanOn reports the result of a migration of the record on a connection, without changes. It
// returns a [ForeignError] for a database of another program.
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

// Upgrade reports the steps of a migration, done or planned.
type Upgrade struct {
	From   int    `json:"from"` // 0 for an empty record
	To     int    `json:"to"`
	Backup string `json:"backup,omitempty"` // path of the previous copy
	// Estimate is the cost of a planned migration of a record in a file; otherwise nil.
	Estimate *Estimate `json:"estimate,omitempty"`
}

// CheckNewer refuses a record of a newer version than this program supports.
func (u Upgrade) CheckNewer() error {
	if u.From > u.To {
		return fmt.Errorf("the record is of version %d and this program knows versions up to %d: run a newer one", u.From, u.To)
	}
	return nil
}

// Sentence describes an upgrade, done or (with dry) planned. Only a record in a file is copied
// first.
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
		return fmt.Sprintf("would bring the record from version %d to version %d, and make no copy: make one with pg_dump first", u.From, u.To)
	case u.From == 0:
		return fmt.Sprintf("made a record of version %d", u.To)
	case u.Backup == "":
		return fmt.Sprintf("brought the record from version %d to version %d", u.From, u.To)
	}
	return fmt.Sprintf("brought the record from version %d to version %d; the previous record is %s", u.From, u.To, u.Backup)
}

// IDs in the header of an SQLite file. Programs older than version 1 of the schema wrote the other
// IDs.
const (
	applicationID      = 0x42746e33 // "Btn3"
	developmentID      = 0x42746e32 // "Btn2"
	firstDevelopmentID = 0x42746e31 // "Btn1"
)

// ForeignError reports a database of another program, with a remedy.
type ForeignError string

// Error implements error.
func (e ForeignError) Error() string { return string(e) }

// Databases of other programs.
const (
	errForeignFile   = ForeignError("the file is an SQLite database of another program; move it away or name another")
	errForeignSchema = ForeignError("there are tables of another program: name an empty schema in search_path, or another database")
)

var errDevelopment = errors.New("a development version wrote this record, before the first version of its schema: this program cannot read it; " +
	"keep it with the program that wrote it, and name an empty record")

// The upgrade is one transaction; after an interruption the next start begins again. A record with
// rows is copied first.
func migrate(ctx context.Context, conn *sql.Conn, f file, known []migration, now time.Time, report Progress) (Upgrade, error) {
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return Upgrade{}, err
	}
	done := Upgrade{From: version, To: latest(known)}
	if err := done.CheckNewer(); err != nil {
		return done, err
	}
	if err := setWAL(ctx, conn); err != nil || done.From == done.To {
		return done, err
	}
	if version > 0 {
		disk, err := measure(ctx, conn, string(f))
		if err == nil {
			err = disk.Check()
		}
		if err != nil {
			return done, err
		}
		report.at(Copying, 0, 0)
		if done.Backup, err = keepVersion(ctx, conn, f, version, now); err != nil {
			return done, fmt.Errorf("copy the record before its upgrade: %w", err)
		}
	}
	_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		err = applyAll(ctx, conn, InSQLite, after(version, known), report)
	}
	if err != nil && done.Backup != "" { // otherwise, each failed start would leave a copy
		err = errors.Join(fmt.Errorf("the record is still of version %d: %w", version, err), os.Remove(done.Backup))
		done.Backup = ""
	}
	if err == nil {
		report.at(Committing, 0, 0)
		_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d;\nCOMMIT;", done.To))
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // fails if the error ended the transaction
	}
	return done, err
}

type executor interface {
	preparer
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func applyAll(ctx context.Context, on executor, d Dialect, missing []migration, report Progress) error {
	for _, m := range missing {
		if err := m.apply(ctx, on, d, report); err != nil {
			return fmt.Errorf("apply %s: %w", m.name, err)
		}
	}
	return nil
}

// Version 5 replaced these tables and columns. The migration of a network reads them, and SQLite
// drops no column while a trigger of a network names a missing table.
const dropConverted = `DROP TABLE event_before; DROP TABLE dead_before; DROP TABLE attempt_before;
	DROP TABLE outbox; DROP TABLE settled; DROP TABLE held; DROP TABLE push; DROP TABLE peer_delivery; DROP TABLE peer_pause;
	DROP INDEX webhook_due; ALTER TABLE webhook DROP COLUMN due; ALTER TABLE webhook DROP COLUMN taken;
	DROP INDEX notice_untold; ALTER TABLE notice DROP COLUMN next; ALTER TABLE notice DROP COLUMN told`

// Converts the events of an older record, and compares the record before and after.
func (m migration) apply(ctx context.Context, on executor, d Dialect, report Progress) error {
	var before census
	if m.version == eventsSplit {
		err := ReadOn(on, d, func(q Tx) (err error) {
			before, err = takeCensus(ctx, q, wholeForm(), report.of(Checking))
			return err
		})
		if err != nil {
			return fmt.Errorf("check the record: %w", err)
		}
	}
	report.at(Changing, 0, 0)
	if _, err := on.ExecContext(ctx, m.statements); err != nil || m.version != eventsSplit {
		return err
	}
	err := ReadOn(on, d, func(q Tx) error {
		return splitEvents(ctx, q, func(done int64) { report.at(Converting, done, before.events) })
	})
	if err == nil {
		_, err = on.ExecContext(ctx, dropConverted)
	}
	if err != nil {
		return err
	}
	return ReadOn(on, d, func(q Tx) error {
		converted, err := takeCensus(ctx, q, splitForm(), report.of(Comparing))
		if err == nil {
			err = before.compare(converted)
		}
		if err != nil {
			return fmt.Errorf("compare the record with the one before: %w", err)
		}
		return nil
	})
}

// Writes to the file, so it runs after the checks.
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

// Returns 0 for an empty file, a [ForeignError] for a database of another program, and
// errDevelopment for a record older than version 1.
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

// The unit is bytes of the record per second, for copying, converting and comparing. A virtual
// machine with two processors reached 13 MiB.
const upgradeRate = 10 << 20

// In a record with 100,000 handoffs of four steps, the copy took 97% of the size, the write-ahead
// log 52%, and the file grew by 39%.
func room(size int64) int64 { return size * 11 / 5 }

// Estimate is the cost of the migration of a record in a file.
type Estimate struct {
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`   // of the record, which is copied first
	Seconds float64 `json:"seconds"` // estimated from the size
	Needs   int64   `json:"needs"`   // bytes of disk for the copy, the new tables and the write-ahead log
	Free    int64   `json:"free"`    // free bytes on that disk
}

func estimate(ctx context.Context, db *sql.DB, record string) (*Estimate, error) {
	e, err := measure(ctx, db, record)
	if err != nil {
		return nil, err
	}
	var counts sql.NullString
	err = db.QueryRowContext(ctx, `SELECT group_concat('(SELECT count(*) FROM "' || name || '")', ' + ') FROM sqlite_schema WHERE type = 'table'`).Scan(&counts)
	if err == nil && counts.Valid {
		err = db.QueryRowContext(ctx, `SELECT `+counts.String).Scan(&e.Rows)
	}
	if err != nil {
		return nil, Failure(err)
	}
	return &e, nil
}

// Omits the number of rows, because counting is slow.
func measure(ctx context.Context, on asker, record string) (e Estimate, err error) {
	err = on.QueryRowContext(ctx, `SELECT c.page_count * s.page_size FROM pragma_page_count c, pragma_page_size s`).Scan(&e.Bytes)
	if err != nil {
		return e, Failure(err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(record), &disk); err != nil {
		return e, fmt.Errorf("measure %s: %w", filepath.Dir(record), err)
	}
	e.Free = int64(disk.Bavail * uint64(disk.Bsize)) //nolint:gosec // no disk has so many bytes
	e.Needs, e.Seconds = room(e.Bytes), float64(e.Bytes)/upgradeRate
	return e, nil
}

// Check returns an error if the disk has too little room.
func (e Estimate) Check() error {
	if e.Free < e.Needs {
		return fmt.Errorf("the upgrade needs %d MiB of disk, and %d MiB are free: make room first", mebibytes(e.Needs), e.Free>>20)
	}
	return nil
}

func (e Estimate) String() string {
	took := time.Duration(e.Seconds * float64(time.Second)).Round(time.Second)
	said := fmt.Sprintf("%d rows, %d MiB to copy, about %s; needs %d MiB of disk, and %d MiB are free",
		e.Rows, mebibytes(e.Bytes), max(took, time.Second), mebibytes(e.Needs), e.Free>>20)
	if e.Check() != nil {
		said += ": make room first"
	}
	return said
}

// mebibytes rounds up.
func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
