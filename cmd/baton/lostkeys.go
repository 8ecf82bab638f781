package main

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"time"

	"baton/configs"
	"baton/federation/identity"
	"baton/federation/store/offline"
)

// checkKeys compares the keys in data_dir with the record before any is made, and reports
// whether the record adopts them. The record is read first: another replica that rotates a
// key meanwhile writes the key before the record.
func (p *program) checkKeys(ctx context.Context) (adopts bool, err error) {
	known, err := p.record.OwnKeys(ctx)
	if err != nil {
		return false, err
	}
	used, err := p.record.Used(ctx)
	if err != nil {
		return false, err
	}
	return used && len(known) == 0, keyFolder(p.file).Check(ctx, known, used)
}

// markKeys notes in the record the keys that it is written with from now on.
func (p *program) markKeys(ctx context.Context, adopts bool) error {
	if adopts {
		p.log.LogAttrs(ctx, slog.LevelInfo, "record adopts the keys in data_dir: it knew none", slog.String("home", p.file.Home.Name))
	}
	return p.record.MarkOwnKeys(ctx, p.keyring.Marks(time.Now()))
}

// lostKeys returns the keys that a record was written with and that are missing, as damage.
func lostKeys(ctx context.Context, file *configs.File, report offline.Report) ([]offline.Damage, error) {
	err := keyFolder(file).Check(ctx, report.OwnKeys, report.Handoffs > 0)
	missing, ok := errors.AsType[*identity.LostKeysError](err)
	if !ok {
		return nil, err
	}
	var damage []offline.Damage
	for _, lost := range missing.Lost {
		damage = append(damage, offline.Damage{Kind: offline.LostKey, Where: path.Join(keysFolder, string(lost.Name)), Detail: lost.String()})
	}
	return damage, nil
}
