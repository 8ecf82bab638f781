package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/store/backup"
)

// CodeOpen is the problem code for an erasure while handoffs are open.
const CodeOpen = "open-handoffs"

// Erase erases the content of all handoffs and messages of a DID, under any of its DIDs and
// handles, or with dry counts it. Its error may be a [*bridge.ProblemError]: the DID belongs to
// this gateway, or has open handoffs. Call Erase again to resume an interrupted erasure.
func (g *Gateway) Erase(ctx context.Context, did federation.DID, dry bool) (federation.Erasing, error) {
	if did == g.home.Load().ID.DID() {
		return federation.Erasing{}, bridge.UsageProblem(string(did) + " is this gateway")
	}
	names, err := g.blockedNames(ctx, federation.Block{Kind: federation.BlockDID, What: string(did)})
	if err != nil {
		return federation.Erasing{}, err
	}
	of := federation.ErasureQuery{DIDs: names.DIDs, Participants: names.Participants}
	found, err := g.deps.Record.Erasable(ctx, of)
	if err == nil && !dry && len(found.Open) > 0 {
		err = openProblem(found.Open)
	}
	if err != nil {
		return federation.Erasing{}, err
	}
	journals, running, err := g.eraseJournals(ctx, found.All, dry)
	if err == nil && !dry {
		found, err = g.eraseRecord(ctx, of)
	}
	found.Journals, found.Running = journals, running
	return found, err
}

// eraseRecord always compacts, because an earlier erasure may have ended before compaction.
func (g *Gateway) eraseRecord(ctx context.Context, of federation.ErasureQuery) (federation.Erasing, error) {
	done, err := g.deps.Record.Erase(ctx, of, time.Now())
	switch {
	case err != nil:
		return done, err
	case len(done.Open) > 0: // opened meanwhile
		return done, openProblem(done.Open)
	}
	return done, g.deps.Record.Compact(ctx)
}

func (g *Gateway) eraseJournals(ctx context.Context, ids []federation.HandoffID, dry bool) (erased int, running []string, err error) {
	for eraser := range able[bridge.Eraser](g.links) {
		n, left, err := eraser.EraseJournals(ctx, ids, dry)
		if err != nil {
			return 0, nil, fmt.Errorf("erase journals of %s: %w", eraser.Name(), err)
		}
		erased, running = erased+n, append(running, left...)
	}
	return erased, running, nil
}

func openProblem(open []federation.HandoffID) error {
	names := make([]string, len(open))
	for i, id := range open {
		names[i] = id.String()
	}
	return &bridge.ProblemError{
		Status: http.StatusConflict, Code: CodeOpen,
		Detail: "nothing was erased; still open: " + strings.Join(names, ", ") + "; end them first (a party cancels or fails them, and baton block add DID --purge ends what the DID offered)",
	}
}

// Erase erases for an operator; see [Gateway.Erase]. A marker in data_dir contains the DID until
// the erasure is complete.
func (s *Server) Erase(ctx context.Context, did federation.DID, dry bool) (federation.Erasing, error) {
	if dry {
		return s.Gateway.Erase(ctx, did, dry)
	}
	marker := erasureMarker(s.file, did)
	if err := errors.Join(os.WriteFile(marker, []byte(did+"\n"), 0o600), backup.SyncFolder(s.file.Path("."))); err != nil {
		return federation.Erasing{}, fmt.Errorf("record the erasure: %w", err)
	}
	done, err := s.Gateway.Erase(ctx, did, dry)
	if _, refused := errors.AsType[*bridge.ProblemError](err); err != nil && !refused {
		return done, err
	}
	if removed := os.Remove(marker); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return done, err
}

const erasurePrefix = "erasure-unfinished-"

func erasureMarker(file *configs.File, did federation.DID) string {
	sum := sha256.Sum256([]byte(did))
	return file.Path(erasurePrefix + hex.EncodeToString(sum[:8]))
}

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

// RecordCopies returns the files that may still contain erased text: copies of the record below
// data_dir, left by a migration, a restore or a backup, and the folder of the batches exchanged
// between homes through this gateway. It blocks on the disk.
func (s *Server) RecordCopies() ([]string, error) {
	found, err := backup.Copies(RestoreTarget(s.file))
	if err != nil {
		return nil, err
	}
	streams, err := filepath.Glob(s.file.Path(relay.StreamsFolder()))
	return append(found, streams...), err
}
