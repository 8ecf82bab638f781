package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/fsck"
)

type verifyCommand struct{}

// Help implements [kong.HelpProvider].
func (verifyCommand) Help() string {
	return `Reads every page, verifies the chain of each handoff and each signature with the recorded key, and rebuilds
each view from its log. It detects orphaned rows, and checks that the keys used to write the record are present. It changes
nothing; a gateway may be running. On PostgreSQL, the server checks the pages.

Example:

	baton verify --json`
}

// Run prints the examined parts, or fails with the first damage.
func (verifyCommand) Run(ctx context.Context, c *cli, streams std) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	at, err := server.Locate(file)
	if err != nil {
		return err
	}
	report, err := at.Examine(ctx, server.Examination{})
	if err != nil {
		return err
	}
	lost, err := lostKeys(ctx, file, report)
	if err != nil {
		return err
	}
	report.Damage = append(report.Damage, lost...)
	if c.JSON {
		err = printJSON(streams, report)
	} else if len(report.Damage) == 0 {
		_, err = fmt.Fprintln(streams.out, report.Sentence())
	}
	if err != nil {
		return err
	}
	return report.Err()
}

func lostKeys(ctx context.Context, file *configs.File, report fsck.Report) ([]fsck.Damage, error) {
	folder := server.KeyFolder(file)
	err := folder.Check(ctx, report.OwnKeys, report.Handoffs > 0)
	missing, ok := errors.AsType[*identity.LostKeysError](err)
	if !ok {
		return nil, err
	}
	var damage []fsck.Damage
	for _, lost := range missing.Lost {
		damage = append(damage, fsck.Damage{Kind: fsck.LostKey, Where: path.Join(filepath.Base(folder.Dir), string(lost.Name)), Detail: lost.String()})
	}
	return damage, nil
}
