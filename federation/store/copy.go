package store

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

// Upgrade is what bringing a record forward did, or would do.
type Upgrade struct {
	From   int    `json:"from"` // version of the record before; 0 for an empty one
	To     int    `json:"to"`
	Backup string `json:"backup,omitempty"` // path of the copy of what was before
}

// Migrate does alone what [Open] does with an older record: it copies it, and
// brings it forward. Its errors are those of Open.
func Migrate(ctx context.Context, path string, now time.Time) (Upgrade, error) {
	f, conn, opened, err := openWriter(ctx, path)
	var done Upgrade
	if err == nil {
		done, err = migrate(ctx, conn, f, now)
	}
	if err := errors.Join(notRecord(err), opened.Close()); err != nil {
		return done, fmt.Errorf("migrate record %s: %w", path, err)
	}
	return done, nil
}

// Plan says what [Migrate] would do, and changes nothing.
func Plan(ctx context.Context, path string) (Upgrade, error) {
	planned, err := plan(ctx, path)
	if err != nil {
		return planned, fmt.Errorf("read record %s: %w", path, err)
	}
	return planned, nil
}

func plan(ctx context.Context, path string) (Upgrade, error) {
	still, err := openStill(path)
	if err != nil {
		return Upgrade{}, err
	}
	defer still.Close()
	return planStill(ctx, still)
}

func planStill(ctx context.Context, s *still) (Upgrade, error) {
	steps, err := schemaSteps()
	if err != nil {
		return Upgrade{}, err
	}
	version, err := schemaVersion(ctx, s.db)
	if err != nil {
		return Upgrade{}, notRecord(err)
	}
	if version > len(steps) {
		return Upgrade{}, newerError(version, len(steps))
	}
	return Upgrade{From: version, To: len(steps)}, nil
}

// Copy writes the record at a path, as it is at one moment, into a new file, durably
// and for the owner alone. The record changes in nothing, and whoever has it open
// goes on writing. It returns an error wrapping [fs.ErrExist] where something is at
// the other path, one wrapping [fs.ErrNotExist] where there is no record, and a
// [*federation.UnavailableError] when the disk of either cannot be used now; nothing
// is left at the other path then.
func Copy(ctx context.Context, from, to string) error {
	s, err := openStill(from)
	if err == nil {
		err = errors.Join(s.copy(ctx, to), s.Close())
	}
	if err != nil {
		return fmt.Errorf("copy record %s: %w", from, err)
	}
	return nil
}

func (s *still) copy(ctx context.Context, to string) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return failure(err)
	}
	if _, err = schemaVersion(ctx, conn); err == nil { // a backup of something else helps nobody
		err = copyTo(ctx, conn, to)
	}
	return errors.Join(notRecord(err), conn.Close())
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
		return failure(err)
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
