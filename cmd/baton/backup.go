package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"baton/configs"
)

// backupCommand writes a backup. It reads the files beside the gateway, which goes
// on serving, and so works as well where none runs.
type backupCommand struct {
	File string `arg:"" help:"Where the backup is written; nothing may be there."`
}

// Help has one example.
func (backupCommand) Help() string {
	return `Writes a tar file of mode 0600 with a consistent copy of the record, and the keys. Who has it can sign as
your gateway. The configuration is not in it.

Example:

	baton backup /var/backups/baton-$(date +%F).tar`
}

// Run writes the file whole or not at all.
func (cmd backupCommand) Run(ctx context.Context, c *cli, streams std) (err error) {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	if err := checkRestored(file); err != nil {
		return err
	}
	if _, err := os.Lstat(cmd.File); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: there is something already", cmd.File), err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(cmd.File), ".baton-backup-") // of mode 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	draft := filepath.Join(folder, "backup.tar")
	made, err := writeBackup(ctx, draft, sourceOf(file), filepath.Join(folder, recordMember))
	if err != nil {
		return err
	}
	if err := os.Link(draft, cmd.File); err != nil { // unlike a rename, never over another file
		return err
	}
	if err := syncFolder(filepath.Dir(cmd.File)); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(made)
	}
	_, err = fmt.Fprintf(streams.out, "%s: record of version %d and %d keys of %s\n", cmd.File, made.Record, len(made.Files)-1, made.Home)
	return err
}

func sourceOf(file *configs.File) source {
	return source{home: file.Home.Name, record: file.Path(file.Store.Path), keys: file.Path(keysFolder)}
}

func writeBackup(ctx context.Context, path string, from source, draft string) (manifest, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the path
	if err != nil {
		return manifest{}, err
	}
	made, err := writeArchive(ctx, f, from, draft, time.Now())
	if err == nil {
		err = f.Sync()
	}
	return made, errors.Join(err, f.Close())
}

// syncFolder puts the names in a folder on disk.
func syncFolder(path string) error {
	folder, err := os.Open(path) //nolint:gosec // the operator names the path
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
