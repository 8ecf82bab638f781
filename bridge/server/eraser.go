package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"baton/bridge"
	"baton/configs"
	"baton/federation"
	"baton/federation/relay"
	"baton/federation/store/backup"
)

// eraser erases for operators. It implements [operatorapi.Eraser].
type eraser struct{ p *Server }

// Erase implements [operatorapi.Eraser]. A marker in data_dir names the DID from before the first
// change until the end: see [unfinishedErasures].
func (e eraser) Erase(ctx context.Context, did federation.DID, dry bool) (federation.Erasing, error) {
	if dry {
		return e.p.Gateway.Erase(ctx, did, dry)
	}
	marker := erasureMarker(e.p.file, did)
	if err := errors.Join(os.WriteFile(marker, []byte(did+"\n"), 0o600), backup.SyncFolder(e.p.file.Path("."))); err != nil {
		return federation.Erasing{}, fmt.Errorf("note the erasure: %w", err)
	}
	done, err := e.p.Gateway.Erase(ctx, did, dry)
	if _, refused := errors.AsType[*bridge.ProblemError](err); err != nil && !refused {
		return done, err
	}
	if removed := os.Remove(marker); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return done, err
}

// erasurePrefix begins the name of the marker of an erasure.
const erasurePrefix = "erasure-unfinished-"

func erasureMarker(file *configs.File, did federation.DID) string {
	sum := sha256.Sum256([]byte(did))
	return file.Path(erasurePrefix + hex.EncodeToString(sum[:8]))
}

// unfinishedErasures returns the DIDs of interrupted erasures. Running an erasure again completes
// it.
func unfinishedErasures(file *configs.File) ([]string, error) {
	markers, err := filepath.Glob(file.Path(erasurePrefix + "*"))
	var dids []string
	for _, marker := range markers {
		text, failed := os.ReadFile(marker) //nolint:gosec // the gateway chose the name
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		dids = append(dids, strings.TrimSpace(string(text)))
	}
	return dids, err
}

// Copies implements [operatorapi.Eraser]. It returns the copies of the record that a migration, a
// restore or a backup left below data_dir, and the folder of the batches exchanged between homes
// through this gateway.
func (e eraser) Copies() ([]string, error) {
	found, err := backup.Copies(RestoreTarget(e.p.file))
	if err != nil {
		return nil, err
	}
	streams, err := filepath.Glob(e.p.file.Path(relay.StreamsFolder()))
	return append(found, streams...), err
}
