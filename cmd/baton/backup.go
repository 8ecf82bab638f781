package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"baton/configs"
	"baton/federation"
	"baton/federation/store/backup"
)

// backupCommand writes a backup: of the gateway that serves, or of the files where
// none does.
type backupCommand struct {
	File string `arg:"" help:"Where the backup is written; nothing may be there."`
}

// Help has one example.
func (backupCommand) Help() string {
	return `Writes a tar file of mode 0600 with a consistent copy of the record, and the keys. Who has it can sign as
your gateway. The configuration is not in it. Where no gateway serves, the files of the configuration are read.
A record on PostgreSQL is not in it: back up the database with its own tools. The configuration is in it then.

Example:

	baton backup /var/backups/baton-$(date +%F).tar`
}

// Run writes the file whole or not at all.
func (cmd backupCommand) Run(ctx context.Context, c *cli, streams std) (err error) {
	if _, err := os.Lstat(cmd.File); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: there is something already", cmd.File), err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(cmd.File), ".baton-backup-") // of mode 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	draft := filepath.Join(folder, "backup.tar")
	made, err := c.backUp(ctx, draft, folder)
	if err != nil {
		return err
	}
	if err := os.Link(draft, cmd.File); err != nil { // unlike a rename, never over another file
		return err
	}
	if err := backup.SyncFolder(filepath.Dir(cmd.File)); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(made)
	}
	_, err = fmt.Fprintf(streams.out, "%s: %s and %d keys of %s\n", cmd.File, made.Content(), len(made.Files)-1, made.Home)
	return err
}

// backUp writes a draft of a backup, by way of the gateway where one serves.
func (c *cli) backUp(ctx context.Context, draft, folder string) (backup.Manifest, error) {
	made, err := c.fetchBackup(ctx, draft)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away || c.Gateway != "" {
		return made, err
	}
	file, err := configs.Load(c.configPath())
	if err != nil {
		return backup.Manifest{}, err
	}
	if err := backup.CheckRestored(file.Path(".")); err != nil {
		return backup.Manifest{}, err
	}
	return backup.Write(ctx, draft, sourceOf(file), folder)
}

// fetchBackup asks the gateway for a backup, and reads what came once more: a cut
// connection must not leave half of one.
func (c *cli) fetchBackup(ctx context.Context, path string) (made backup.Manifest, err error) {
	gateway, err := c.client()
	if err != nil {
		return backup.Manifest{}, err
	}
	response, err := gateway.endless.Backup(ctx)
	if err != nil {
		return backup.Manifest{}, err
	}
	defer response.Body.Close()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the path
	if err != nil {
		return backup.Manifest{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, response.Body); err != nil {
		return backup.Manifest{}, fmt.Errorf("the gateway went away: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	if err := errors.Join(err, f.Sync()); err != nil {
		return backup.Manifest{}, err
	}
	return backup.Check(f)
}

// backUp makes a backup of the files of a gateway, in a folder of its own that goes
// when the backup was read.
func backUp(ctx context.Context, file *configs.File) (_ io.ReadCloser, err error) {
	folder, err := os.MkdirTemp(file.Path("."), ".backup-") // of mode 0700
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }() // what is open stays
	path := filepath.Join(folder, "backup.tar")
	if _, err := backup.Write(ctx, path, sourceOf(file), folder); err != nil {
		return nil, err
	}
	return os.Open(path) //nolint:gosec // made just now
}

// sourceOf returns the files of a configuration that a backup is made of.
func sourceOf(file *configs.File) backup.Source {
	s := backup.Source{Home: file.Home.Name, Record: file.Path(file.Store.Path), Config: file.Name(), Keys: file.Path(keysFolder)}
	if file.Store.Driver == configs.Postgres {
		s.Record = ""
	}
	return s
}
