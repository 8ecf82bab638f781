package main

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"time"

	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/store"
)

// checkKeys returns an error where a key is missing that a record was written with. A record
// from before any was noted accepts the keys that are there; used says whether it holds
// anything.
func checkKeys(ctx context.Context, file *configs.File, known []federation.KeyMark, used bool) error {
	if len(known) == 0 && used {
		known = identity.AssumedMarks()
	}
	return identity.CheckKeys(ctx, file.Path(keysFolder), identity.Signer(file.Keys.Signer), known)
}

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
	return used && len(known) == 0, checkKeys(ctx, p.file, known, used)
}

// markKeys notes in the record the keys that it is written with from now on.
func (p *program) markKeys(ctx context.Context, adopts bool) error {
	if adopts {
		p.log.LogAttrs(ctx, slog.LevelInfo, "record adopts the keys in data_dir: it knew none", slog.String("home", p.file.Home.Name))
	}
	return p.record.MarkOwnKeys(ctx, p.keyring.Marks(time.Now()))
}

// lostKeys returns the keys that a record was written with and that are missing, as damage.
func lostKeys(ctx context.Context, file *configs.File, report store.Report) ([]store.Damage, error) {
	err := checkKeys(ctx, file, report.OwnKeys, report.Handoffs > 0)
	missing, ok := errors.AsType[*identity.LostKeysError](err)
	if !ok {
		return nil, err
	}
	var damage []store.Damage
	for _, lost := range missing.Lost {
		damage = append(damage, store.Damage{Kind: store.LostKey, Where: path.Join(keysFolder, string(lost.Name)), Detail: lost.String()})
	}
	return damage, nil
}
