package main

import (
	"context"
	"path/filepath"

	"baton/federation"
	"baton/federation/relay"
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
	record := e.p.file.Path(e.p.file.Store.Path)
	found := []string{}
	for _, pattern := range []string{record + ".*.bak", record + ".*.draft", filepath.Join(filepath.Dir(record), "replaced-*"), e.p.file.Path(relay.StreamsFolder())} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		found = append(found, files...)
	}
	return found, nil
}
