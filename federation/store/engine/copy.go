package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"baton/federation"
)

// Migrate migrates the record in a file as [Open] does, without opening it. Its errors are
// the errors of Open.
func Migrate(ctx context.Context, path string, tables Tables, now time.Time) (Upgrade, error) {
	known, err := migrationsOf(sqliteSchema, tables)
	if err != nil {
		return Upgrade{}, err
	}
	return migrateFile(ctx, path, known, now)
}

func migrateFile(ctx context.Context, path string, known []migration, now time.Time) (done Upgrade, err error) {
	f, conn, opened, err := openWriter(ctx, path)
	if err == nil {
		done, err = migrate(ctx, conn, f, known, now)
	}
	if err := errors.Join(NotRecord(err), opened.Close()); err != nil {
		return done, fmt.Errorf("migrate record %s: %w", path, err)
	}
	return done, nil
}

// Plan reports what [Migrate] would do, and changes nothing.
func Plan(ctx context.Context, path string) (Upgrade, error) {
	known, err := migrationsOf(sqliteSchema, nil)
	if err != nil {
		return Upgrade{}, err
	}
	return planFile(ctx, path, known)
}

func planFile(ctx context.Context, path string, known []migration) (planned Upgrade, err error) {
	s, err := OpenReadSnapshot(path)
	if err == nil {
		planned, err = s.plan(ctx, known)
		if err == nil && planned.From > 0 && planned.From < planned.To {
			planned.Estimate, err = estimate(ctx, s.DB, path)
		}
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return planned, fmt.Errorf("read record %s: %w", path, err)
	}
	return planned, nil
}

func (s *ReadSnapshot) plan(ctx context.Context, known []migration) (Upgrade, error) {
	version, err := schemaVersion(ctx, s.DB)
	if err != nil {
		return Upgrade{}, NotRecord(err)
	}
	planned := Upgrade{From: version, To: latest(known)}
	return planned, planned.CheckNewer()
}

// Copy writes the record at a path, as it is at one moment, into a new file, durably and
// readable by the owner alone. The record does not change, and the process that has it open
// goes on writing. Copy returns an error wrapping [fs.ErrExist] where the other path exists,
// one wrapping [fs.ErrNotExist] where there is no record, and a
// [*federation.UnavailableError] when the disk of either cannot be used now; nothing is left
// at the other path then.
func Copy(ctx context.Context, from, to string) error {
	s, err := OpenReadSnapshot(from)
	if err == nil {
		err = errors.Join(s.copy(ctx, to), s.Close())
	}
	if err != nil {
		return fmt.Errorf("copy record %s: %w", from, err)
	}
	return nil
}

func (s *ReadSnapshot) copy(ctx context.Context, to string) error {
	conn, err := s.DB.Conn(ctx)
	if err != nil {
		return Failure(err)
	}
	if _, err = schemaVersion(ctx, conn); err == nil { // a backup of another program's file is useless
		err = copyTo(ctx, conn, to)
	}
	return errors.Join(NotRecord(err), conn.Close())
}

// keepVersion copies a record beside itself before its upgrade, and returns where.
// The copy has its name only once it is whole.
func keepVersion(ctx context.Context, conn *sql.Conn, f file, version int, now time.Time) (string, error) {
	path := fmt.Sprintf("%s.v%d-%s.bak", f, version, now.UTC().Format("20060102T150405.000Z"))
	draft := fmt.Sprintf("%s.v%d.draft", f, version)
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a start that was cut short
		return "", err
	}
	if err := copyTo(ctx, conn, draft); err != nil {
		return "", err
	}
	if err := os.Rename(draft, path); err != nil {
		return "", errors.Join(err, os.Remove(draft))
	}
	return path, syncFolder(path)
}

// copyTo has SQLite write the database anew, which reads every page of it: a
// damaged record fails here. SQLite does not sync what it writes so.
func copyTo(ctx context.Context, conn *sql.Conn, path string) (err error) {
	target, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, ownerOnly) //nolint:gosec // the operator names the path
	if err != nil {
		return diskError(err)
	}
	defer func() {
		err = errors.Join(err, target.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if _, err := conn.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return Failure(err)
	}
	if err := target.Sync(); err != nil {
		return diskError(err)
	}
	return syncFolder(path)
}

// syncFolder puts the name of a file on disk.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return diskError(errors.Join(folder.Sync(), folder.Close()))
}

// diskError says that a disk cannot be used now, which is no evidence about what is
// on it. A path that is wrong stays wrong.
func diskError(err error) error {
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &federation.UnavailableError{What: "disk", Err: err}
}
