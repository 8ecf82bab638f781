package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation/store/engine"
)

// The marker is in data_dir while a restore moves files: record and keys may not match.
const restoreMarker = "restore-unfinished"

// CheckRestored returns an error if a restore to a target was interrupted. Until the first file is
// moved, the evidence is the folder of the key drafts; after that it is the marker.
func CheckRestored(to Target) error {
	r := restoration{to: to}
	const again = "a restore was cut short: run baton restore again"
	switch moving, err := exists(r.path(restoreMarker)); {
	case err != nil:
		return err
	case moving:
		return errors.New(again)
	}
	reading, err := exists(r.keysDraft())
	if err == nil && reading {
		err = fmt.Errorf("%s, or delete %s to serve without it: it has changed nothing", again, r.keysDraft())
	}
	return err
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Target is the destination of a restore.
type Target struct {
	Source

	Dir    string // data_dir
	Driver string // store.driver, for people
}

// Restored is the result of a restore.
type Restored struct {
	Manifest

	Aside string `json:"aside,omitempty"` // of the previous files, or ""
}

// Restore checks a whole backup, then puts record and keys in place. If they exist, it moves
// them aside with force, and otherwise returns an error. No gateway may be running on the
// target.
func Restore(ctx context.Context, name string, to Target, force bool, now time.Time) (done Restored, err error) {
	r := restoration{to: to}
	if to.Record != "" {
		lock, err := engine.Lock(to.Record)
		if err != nil {
			return done, err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if err := r.checkRoom(force); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, r.clear()) }()
	if err := r.begin(); err != nil {
		return done, err
	}
	if err := r.read(ctx, name); err != nil {
		return done, err
	}
	aside, err := r.place(now)
	return Restored{r.made, aside}, err
}

type restoration struct {
	to   Target
	made Manifest
}

func (r *restoration) path(name string) string { return filepath.Join(r.to.Dir, name) }

// Drafts are next to their final files, on the same file system. If the record is in a database,
// the configuration is drafted in its place, and stays in the backup.
func (r *restoration) recordDraft() string {
	return cmp.Or(r.to.Record, r.path(configMember)) + ".restoring"
}

func (r *restoration) keysDraft() string { return r.to.Keys + ".restoring" }

func (r *restoration) there() []string {
	var found []string
	places := []string{r.to.Keys}
	if r.to.Record != "" {
		places = []string{r.to.Record, r.to.Record + "-wal", r.to.Record + "-shm", r.to.Keys}
	}
	for _, path := range places {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// Existing files are touched only with force, or if an interrupted restore left them.
func (r *restoration) checkRoom(force bool) error {
	_, err := os.Lstat(r.path(restoreMarker))
	found := r.there()
	if len(found) == 0 || force || err == nil {
		return nil
	}
	return fmt.Errorf("%s is there already: --force moves record and keys aside", found[0])
}

// The folder of the key drafts is created before any other file, or emptied if a killed restore
// left it. From then until clear, [CheckRestored] fails.
func (r *restoration) begin() error {
	if err := os.MkdirAll(r.keysDraft(), 0o700); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(r.keysDraft(), 0o700), SyncFolder(filepath.Dir(r.keysDraft())), os.RemoveAll(r.recordDraft())); err != nil { //nolint:gosec // a directory needs execute permission
		return err
	}
	left, err := os.ReadDir(r.keysDraft())
	for _, one := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.keysDraft(), one.Name())))
	}
	return err
}

func (r *restoration) clear() error {
	return errors.Join(os.RemoveAll(r.recordDraft()), os.RemoveAll(r.keysDraft()))
}

func (r *restoration) read(ctx context.Context, name string) error {
	archive, err := os.Open(name) //nolint:gosec // the operator names the path
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := read(archive, r.accept, r.create); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if r.to.Record != "" {
		if _, err := engine.Plan(ctx, r.recordDraft()); err != nil { // mainly to reject a newer record
			return err
		}
	}
	return SyncFolder(r.keysDraft())
}

func (r *restoration) accept(made Manifest) error {
	if r.made = made; made.Home != r.to.Home {
		return fmt.Errorf("the backup is of %q, and home.name is %q", made.Home, r.to.Home)
	}
	if made.Files[0].Name != r.to.first() {
		return fmt.Errorf("the backup is of another store.driver than %q: restore it with that, then move the record", r.to.Driver)
	}
	return nil
}

func (r *restoration) create(name string) (io.WriteCloser, error) {
	path := r.recordDraft() // or the configuration, which is deleted later
	if key, ok := strings.CutPrefix(name, keysMember); ok {
		path = filepath.Join(r.keysDraft(), key)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // checkManifest saw the name
	return syncedFile{f}, err
}

type syncedFile struct{ *os.File }

// Close writes the file to disk first.
func (f syncedFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

// The result is the folder with the previous files. The marker is on disk from before the first
// move until after the last, so a restore killed in between loses nothing and can be detected.
func (r *restoration) place(now time.Time) (aside string, err error) {
	marker := r.path(restoreMarker)
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return "", err
	}
	if err := r.sync(); err != nil {
		return "", err
	}
	if aside, err = r.moveAside(now); err != nil {
		return "", err
	}
	if err := os.Rename(r.keysDraft(), r.to.Keys); err != nil {
		return "", err
	}
	if r.to.Record != "" {
		if err := os.Rename(r.recordDraft(), r.to.Record); err != nil {
			return "", err
		}
	}
	if err := r.sync(); err != nil {
		return "", err
	}
	if err := os.Remove(marker); err != nil {
		return "", err
	}
	return aside, r.sync()
}

func (r *restoration) sync() error {
	return errors.Join(SyncFolder(r.to.Dir), SyncFolder(filepath.Dir(r.recordDraft())))
}

// A restore never deletes existing files, but moves them to a folder next to the record.
func (r *restoration) moveAside(now time.Time) (string, error) {
	found := r.there()
	if len(found) == 0 {
		return "", nil
	}
	aside := filepath.Join(filepath.Dir(r.recordDraft()), asidePrefix+now.UTC().Format("20060102T150405.000Z"))
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", err
	}
	for _, path := range found {
		if err := os.Rename(path, filepath.Join(aside, filepath.Base(path))); err != nil {
			return "", err
		}
	}
	return aside, SyncFolder(aside)
}
