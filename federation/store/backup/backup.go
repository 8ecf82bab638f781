// Package backup writes and restores backups of a gateway: a consistent copy of its record, with
// its keys.
//
// A backup is one tar file, readable only by the owner. It contains manifest.json and then exactly
// the files listed there, in that order:
//
//	manifest.json    home, time, and name, size and SHA-256 of each file
//	record.db        the record, an SQLite file; or
//	baton.toml       the configuration, if the record is in a database
//	keys/NAME        each file of the keys folder
//
// It does not contain the secrets named by the configuration, nor the configuration if it contains
// the record: they belong to the operator, and often to a host. A database has tools of its own,
// and the configuration names the database that belongs together with the keys.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// Write writes a backup of a source durably to a new file. It leaves its drafts in the caller's
// folder.
func Write(ctx context.Context, path string, from Source, drafts string) (Manifest, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the path
	if err != nil {
		return Manifest{}, err
	}
	made, err := write(ctx, f, from, filepath.Join(drafts, recordMember), time.Now())
	if err == nil {
		err = f.Sync()
	}
	return made, errors.Join(err, f.Close())
}

// Check reads a whole backup, and returns its manifest, or an error if it is damaged.
func Check(r io.Reader) (made Manifest, err error) {
	err = read(r, func(m Manifest) error { made = m; return nil }, func(string) (io.WriteCloser, error) { return nowhere{io.Discard}, nil })
	return made, err
}

type nowhere struct{ io.Writer }

// Close does nothing.
func (nowhere) Close() error { return nil }

// SyncFolder syncs the names in a folder to disk.
func SyncFolder(path string) error {
	folder, err := os.Open(path) //nolint:gosec // the operator names the path
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Such a folder, next to the record, has the files replaced by a restore.
const asidePrefix = "replaced-"

// Copies returns the copies of the record of a target: from a migration or a restore, drafts of an
// interrupted restore, and leftovers of killed backups.
func Copies(of Target) ([]string, error) {
	r := restoration{to: of}
	patterns := []string{r.recordDraft(), filepath.Join(of.Dir, leftoverPrefix+"*", recordMember), filepath.Join(filepath.Dir(r.recordDraft()), asidePrefix+"*")}
	if of.Record != "" {
		patterns = append(patterns, of.Record+".*.bak", of.Record+".*.draft")
	}
	found := []string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		found = append(found, files...)
	}
	return found, nil
}

// Earlier versions made backups in such folders in data_dir.
const leftoverPrefix = ".backup-"

// Save writes a backup to a file, completely or not at all, and never over another file. The
// function write makes the draft in its own folder, which Save removes.
func Save(path string, write func(draft, folder string) (Manifest, error)) (made Manifest, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return made, errors.Join(fmt.Errorf("%s: the file already exists", path), err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".baton-backup-") // of mode 0700
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	draft := filepath.Join(folder, "backup.tar")
	if made, err = write(draft, folder); err != nil {
		return made, err
	}
	if err := os.Link(draft, path); err != nil { // unlike a rename, never over another file
		return made, err
	}
	return made, SyncFolder(filepath.Dir(path))
}

// Receive writes a backup received from a gateway to a file, and checks it. After an error it
// leaves no partial backup.
func Receive(path string, from io.Reader) (made Manifest, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the path
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, from); err != nil {
		return made, fmt.Errorf("the gateway went away: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	if err := errors.Join(err, f.Sync()); err != nil {
		return made, err
	}
	return Check(f)
}

// Stream returns a backup of a source without a copy, so that a full disk can be backed up to
// another disk. If ctx ends, the backup is truncated. The caller closes it.
func Stream(ctx context.Context, from Source) (io.ReadCloser, error) {
	made := Manifest{Format: archiveFormat, Home: from.Home, Made: time.Now().UTC()}
	if from.Record == "" {
		first, err := describe(configMember, from.Config)
		if err != nil {
			return nil, err
		}
		return stream(made, first, from.Keys, func() error { return nil })
	}
	pages, err := engine.OpenPages(ctx, from.Record)
	if err != nil {
		return nil, err
	}
	made.Record = pages.Version
	first, err := measure(recordMember, func(w io.Writer) error { return pages.WriteTo(ctx, w) })
	if err != nil {
		return nil, errors.Join(err, pages.Close())
	}
	return stream(made, first, from.Keys, pages.Close)
}

func stream(made Manifest, first member, keys string, end func() error) (io.ReadCloser, error) {
	members, err := withKeys(&made, first, keys)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	reader, writer := io.Pipe()
	go func() {
		err := fault.Catch(func() error { return errors.Join(writeMembers(writer, made, members), end()) })
		_ = writer.CloseWithError(err) // never fails
	}()
	return reader, nil
}

// RemoveLeftovers deletes the folders left in data_dir by killed backups of earlier versions. No
// gateway may be running there.
func RemoveLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, leftoverPrefix+"*"))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}
