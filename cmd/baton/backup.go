package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/backup"
)

type backupCommand struct {
	File string `arg:"" help:"Path of the backup; it must not exist."`
}

// Help describes the content of a backup, with an example.
func (backupCommand) Help() string {
	return `Writes a tar file of mode 0600 with a consistent copy of the record, and the keys. Anyone with the file can sign as
your gateway. The file does not contain the configuration. Without a running gateway, the command reads the record and
the keys directly.

If the record is on PostgreSQL, the file contains the keys and the configuration: back up the database with its own tools.

Example:

	baton backup /var/backups/baton-$(date +%F).tar`
}

// Run writes the file atomically.
func (cmd backupCommand) Run(ctx context.Context, c *cli, streams std) error {
	made, err := backup.Save(cmd.File, func(draft, folder string) (backup.Manifest, error) {
		made, err := c.fetchBackup(ctx, draft)
		if _, away := errors.AsType[*federation.UnavailableError](err); !away || c.Gateway != "" {
			return made, err
		}
		return c.copyFiles(ctx, draft, folder)
	})
	if err != nil {
		return err
	}
	return printLine(c, streams, made, fmt.Sprintf("%s: %s and %d keys of %s", cmd.File, made.Content(), len(made.Files)-1, made.Home))
}

func (c *cli) fetchBackup(ctx context.Context, draft string) (backup.Manifest, error) {
	gateway, err := c.client()
	if err != nil {
		return backup.Manifest{}, err
	}
	sent, err := gateway.Backup(ctx)
	if err != nil {
		return backup.Manifest{}, err
	}
	defer sent.Close()
	return backup.Receive(draft, sent)
}

func (c *cli) copyFiles(ctx context.Context, draft, folder string) (backup.Manifest, error) {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return backup.Manifest{}, err
	}
	if err := backup.CheckRestored(server.RestoreTarget(file)); err != nil {
		return backup.Manifest{}, err
	}
	return backup.Write(ctx, draft, server.BackupSource(file), folder)
}

type restoreCommand struct {
	File  string `arg:"" help:"The backup."`
	Force bool   `help:"Move existing record and keys into a folder of data_dir first."`
}

// Help implements [kong.HelpProvider].
func (restoreCommand) Help() string {
	return `Verifies the whole backup, then restores the record and the keys into data_dir, which must have neither. The
gateway must not be running. Steps acknowledged after the backup are lost: peers and agents may have to send them again.

Example:

	baton restore /var/backups/baton-2026-11-21.tar`
}

// Run restores.
func (cmd restoreCommand) Run(ctx context.Context, c *cli, streams std) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(file.Path("."), 0o700); err != nil {
		return err
	}
	done, err := backup.Restore(ctx, cmd.File, server.RestoreTarget(file), cmd.Force, time.Now())
	if err != nil {
		return err
	}
	line := fmt.Sprintf("restored what %s had at %s", done.Home, done.Made.Format(time.RFC3339))
	if done.Aside != "" {
		line += "\nwhat was there is in " + done.Aside
	}
	return printLine(c, streams, done, line)
}
