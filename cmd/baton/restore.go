package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/configs"
	"baton/federation/store"
)

// restoreMarker is in data_dir while a restore moves things. Who finds it there knows
// that record and keys may not belong together.
const restoreMarker = "restore-unfinished"

// restoreCommand puts a backup in place, whole or not at all.
type restoreCommand struct {
	File  string `arg:"" help:"The backup."`
	Force bool   `help:"Move record and keys that are there aside, into a folder of data_dir."`
}

// Help has one example.
func (restoreCommand) Help() string {
	return `Checks the backup whole, then puts record and keys into data_dir, which must have neither. The gateway must
not run. What happened after the backup is not in it: peers and agents may have to send again what they were
answered since.

Example:

	baton restore /var/backups/baton-2026-11-21.tar`
}

// Run restores.
func (cmd restoreCommand) Run(ctx context.Context, c *cli, streams std) (err error) {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(file.Path("."), 0o700); err != nil {
		return err
	}
	r := restoration{file: file, to: sourceOf(file)}
	if r.to.record != "" {
		lock, err := store.Lock(r.to.record)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if err := r.checkRoom(cmd.Force); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.clear()) }()
	if err := r.read(ctx, cmd.File); err != nil {
		return err
	}
	aside, err := r.place(time.Now())
	if err != nil {
		return err
	}
	return r.tell(c, streams, aside)
}

// restoration is one restore under way.
type restoration struct {
	file *configs.File
	to   source
	made manifest
}

// Drafts are beside what they become, on the same file system. Where the record is in a
// database, the configuration is drafted in its place, and stays in the backup.
func (r *restoration) recordDraft() string {
	return cmp.Or(r.to.record, r.file.Path(configMember)) + ".restoring"
}

func (r *restoration) keysDraft() string { return r.to.keys + ".restoring" }

// there returns what is in the places of record and keys.
func (r *restoration) there() []string {
	var found []string
	places := []string{r.to.keys}
	if r.to.record != "" {
		places = []string{r.to.record, r.to.record + "-wal", r.to.record + "-shm", r.to.keys}
	}
	for _, path := range places {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// checkRoom refuses to touch what is there, unless it was told to, or a restore that
// was cut short left it.
func (r *restoration) checkRoom(force bool) error {
	_, err := os.Lstat(r.file.Path(restoreMarker))
	found := r.there()
	if len(found) == 0 || force || err == nil {
		return nil
	}
	return fmt.Errorf("%s is there already: --force moves record and keys aside", found[0])
}

// clear removes drafts: those of this restore, and before it of one that was killed.
func (r *restoration) clear() error {
	return errors.Join(os.RemoveAll(r.recordDraft()), os.RemoveAll(r.keysDraft()))
}

// read checks the backup and writes all of it to drafts.
func (r *restoration) read(ctx context.Context, name string) error {
	if err := r.clear(); err != nil {
		return err
	}
	archive, err := os.Open(name) //nolint:gosec // the operator names the path
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := os.Mkdir(r.keysDraft(), 0o700); err != nil {
		return err
	}
	if err := readArchive(archive, r.accept, r.create); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if r.to.record != "" {
		if _, err := store.Plan(ctx, r.recordDraft()); err != nil { // a newer record, above all
			return err
		}
	}
	return syncFolder(r.keysDraft())
}

func (r *restoration) accept(made manifest) error {
	if r.made = made; made.Home != r.file.Home.Name {
		return fmt.Errorf("the backup is of %q, and home.name is %q", made.Home, r.file.Home.Name)
	}
	if made.Files[0].Name != r.to.first() {
		return fmt.Errorf("the backup is of another store.driver than %q: restore it with that, then move the record", r.file.Store.Driver)
	}
	return nil
}

func (r *restoration) create(name string) (io.WriteCloser, error) {
	path := r.recordDraft() // or that of the configuration, which is thrown away
	if key, ok := strings.CutPrefix(name, keysMember); ok {
		path = filepath.Join(r.keysDraft(), key)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // checkManifest saw the name
	return syncedFile{f}, err
}

// syncedFile is on disk when it is closed.
type syncedFile struct{ *os.File }

// Close syncs first.
func (f syncedFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

// place moves the drafts to where they belong, and returns the folder that has what
// was there. The marker stands from before the first move until after the last, each
// of them on disk: whoever is killed in between has lost nothing, and says so.
func (r *restoration) place(now time.Time) (aside string, err error) {
	marker := r.file.Path(restoreMarker)
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return "", err
	}
	if err := r.sync(); err != nil {
		return "", err
	}
	if aside, err = r.moveAside(now); err != nil {
		return "", err
	}
	if err := os.Rename(r.keysDraft(), r.to.keys); err != nil {
		return "", err
	}
	if r.to.record != "" {
		if err := os.Rename(r.recordDraft(), r.to.record); err != nil {
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
	return errors.Join(syncFolder(r.file.Path(".")), syncFolder(filepath.Dir(r.recordDraft())))
}

// moveAside moves what is in the way beside the record: nothing is ever deleted.
func (r *restoration) moveAside(now time.Time) (string, error) {
	found := r.there()
	if len(found) == 0 {
		return "", nil
	}
	aside := filepath.Join(filepath.Dir(r.recordDraft()), "replaced-"+now.UTC().Format("20060102T150405.000Z"))
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", err
	}
	for _, path := range found {
		if err := os.Rename(path, filepath.Join(aside, filepath.Base(path))); err != nil {
			return "", err
		}
	}
	return aside, syncFolder(aside)
}

func (r *restoration) tell(c *cli, streams std, aside string) error {
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(struct {
			manifest
			Aside string `json:"aside,omitempty"` // folder of what was there
		}{r.made, aside})
	}
	_, err := fmt.Fprintf(streams.out, "restored what %s had at %s\n", r.made.Home, r.made.Made.Format(time.RFC3339))
	if err == nil && aside != "" {
		_, err = fmt.Fprintf(streams.out, "what was there is in %s\n", aside)
	}
	return err
}

// checkRestored refuses a data_dir in which a restore was cut short.
func checkRestored(file *configs.File) error {
	_, err := os.Lstat(file.Path(restoreMarker))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return errors.New("a restore was cut short: run baton restore again")
}
