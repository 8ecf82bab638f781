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
	"time"

	"baton/configs"
	"baton/federation"
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
	if err := syncFolder(filepath.Dir(cmd.File)); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(made)
	}
	_, err = fmt.Fprintf(streams.out, "%s: %s and %d keys of %s\n", cmd.File, made.what(), len(made.Files)-1, made.Home)
	return err
}

// backUp writes a draft of a backup, by way of the gateway where one serves.
func (c *cli) backUp(ctx context.Context, draft, folder string) (manifest, error) {
	made, err := c.fetchBackup(ctx, draft)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away || c.Gateway != "" {
		return made, err
	}
	file, err := configs.Load(c.configPath())
	if err != nil {
		return manifest{}, err
	}
	if err := checkRestored(file); err != nil {
		return manifest{}, err
	}
	return writeBackup(ctx, draft, sourceOf(file), filepath.Join(folder, recordMember))
}

// fetchBackup asks the gateway for a backup, and reads what came once more: a cut
// connection must not leave half of one.
func (c *cli) fetchBackup(ctx context.Context, path string) (made manifest, err error) {
	gateway, err := c.client()
	if err != nil {
		return manifest{}, err
	}
	response, err := gateway.endless.Backup(ctx)
	if err != nil {
		return manifest{}, err
	}
	defer response.Body.Close()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the path
	if err != nil {
		return manifest{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, response.Body); err != nil {
		return manifest{}, fmt.Errorf("the gateway went away: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	if err := errors.Join(err, f.Sync()); err != nil {
		return manifest{}, err
	}
	return made, readArchive(f, func(m manifest) error { made = m; return nil },
		func(string) (io.WriteCloser, error) { return nowhere{io.Discard}, nil })
}

// nowhere is where members go that are read for their checksum alone.
type nowhere struct{ io.Writer }

// Close does nothing.
func (nowhere) Close() error { return nil }

// backUp makes a backup of the files of a gateway, in a folder of its own that goes
// when the backup was read.
func backUp(ctx context.Context, file *configs.File) (_ io.ReadCloser, err error) {
	folder, err := os.MkdirTemp(file.Path("."), ".backup-") // of mode 0700
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }() // what is open stays
	path := filepath.Join(folder, "backup.tar")
	if _, err := writeBackup(ctx, path, sourceOf(file), filepath.Join(folder, recordMember)); err != nil {
		return nil, err
	}
	return os.Open(path) //nolint:gosec // made just now
}

func sourceOf(file *configs.File) source {
	s := source{home: file.Home.Name, record: file.Path(file.Store.Path), config: file.Name(), keys: file.Path(keysFolder)}
	if file.Store.Driver == configs.Postgres {
		s.record = ""
	}
	return s
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
