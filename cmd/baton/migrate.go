package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"baton/configs"
	"baton/federation/store"
)

// migrateCommand brings the record forward, as serve does at its start.
type migrateCommand struct {
	DryRun bool `help:"Say what would be done, and change nothing."`
}

// Help has one example.
func (migrateCommand) Help() string {
	return `Copies an older record to NAME.vVERSION-TIME.bak beside it, and brings it forward. There is no way back but
that copy. Refuses a record of a newer version.

Example:

	baton migrate --dry-run`
}

// Run prints what was done, or would be.
func (cmd migrateCommand) Run(ctx context.Context, c *cli, streams std) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	path := file.Path(file.Store.Path)
	var done store.Upgrade
	if cmd.DryRun {
		done, err = store.Plan(ctx, path)
	} else {
		done, err = store.Migrate(ctx, path, time.Now())
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(done)
	}
	_, err = fmt.Fprintln(streams.out, cmd.sentence(done))
	return err
}

func (cmd migrateCommand) sentence(done store.Upgrade) string {
	switch {
	case done.From == done.To:
		return fmt.Sprintf("the record is of version %d: nothing to do", done.To)
	case cmd.DryRun:
		return fmt.Sprintf("would copy the record of version %d, and bring it to version %d", done.From, done.To)
	case done.Backup == "":
		return fmt.Sprintf("made a record of version %d", done.To)
	}
	return fmt.Sprintf("brought the record from version %d to version %d; what was before is %s", done.From, done.To, done.Backup)
}
