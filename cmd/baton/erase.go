package main

import (
	"context"
	"path/filepath"

	"baton/federation"
	"baton/federation/relay"
	"baton/federation/store/backup"
)

// eraser erases for operators. It implements [operatorapi.Eraser].
type eraser struct{ p *program }

// Erase implements [operatorapi.Eraser].
func (e eraser) Erase(ctx context.Context, did federation.DID, dry bool) (federation.Erasing, error) {
	return e.p.gateway.Erase(ctx, did, dry)
}

// Copies implements [operatorapi.Eraser]: copies of the record below data_dir that a migration or
// a restore made, and the folder of the batches that homes exchange through this gateway.
func (e eraser) Copies() ([]string, error) {
	found, err := backup.Copies(e.p.file.Path(e.p.file.Store.Path))
	if err != nil {
		return nil, err
	}
	streams, err := filepath.Glob(e.p.file.Path(relay.StreamsFolder()))
	return append(found, streams...), err
}
