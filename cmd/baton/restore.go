package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"baton/configs"
	"baton/federation/store/backup"
)

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
func (cmd restoreCommand) Run(ctx context.Context, c *cli, streams std) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(file.Path("."), 0o700); err != nil {
		return err
	}
	done, err := backup.Restore(ctx, cmd.File, targetOf(file), cmd.Force, time.Now())
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(done)
	}
	_, err = fmt.Fprintf(streams.out, "restored what %s had at %s\n", done.Home, done.Made.Format(time.RFC3339))
	if err == nil && done.Aside != "" {
		_, err = fmt.Fprintf(streams.out, "what was there is in %s\n", done.Aside)
	}
	return err
}

// targetOf returns where a configuration has a backup restored to.
func targetOf(file *configs.File) backup.Target {
	return backup.Target{Source: sourceOf(file), Dir: file.Path("."), Driver: file.Store.Driver}
}
