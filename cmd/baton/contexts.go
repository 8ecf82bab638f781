package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"baton/federation"
	"baton/translate"
)

// contexts keeps here what steps refer to instead of holding it, and serves it.
type contexts struct {
	record    federation.Blobs
	publicURL string
	limits    func() (one, ofDID int64) // bytes; no limit for a DID is 0
	log       *slog.Logger
}

func (p *program) contexts() contexts {
	return contexts{
		record: p.record, publicURL: strings.TrimSuffix(p.publicURL, "/"), log: p.log,
		limits: func() (one, ofDID int64) { return p.linkLimits.Load().ContextBytes, p.contextsOfDID.Load() },
	}
}

// orMost returns a limit of the configuration as the size that one context may have.
func orMost(limit int64) int64 {
	if limit == 0 || limit > federation.MaxBlobBytes {
		return federation.MaxBlobBytes
	}
	return limit
}

// Store is that of [bridge.Ports].
func (c contexts) Store(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error) {
	return c.keep(ctx, owner, federation.HandoffID{}, content)
}

func (c contexts) keep(ctx context.Context, owner federation.DID, of federation.HandoffID, content []byte) (federation.Blob, error) {
	one, ofDID := c.limits()
	if int64(len(content)) > one {
		return federation.Blob{}, federation.ErrBlobTooLarge
	}
	blob, err := federation.NewBlob(owner, content, rand.Reader, time.Now())
	if err != nil {
		return federation.Blob{}, err
	}
	return c.record.KeepBlob(ctx, blob, of, ofDID)
}

// Refer is that of [bridge.Ports].
func (c contexts) Refer(ctx context.Context, ev federation.Event) (federation.Event, error) {
	if !translate.InlineContext(ev.Context) {
		return c.hashed(ctx, ev)
	}
	blob, err := c.keep(ctx, ev.Actor(), ev.Handoff, []byte(ev.Context))
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge), errors.Is(err, federation.ErrNoBlobRoom):
		c.log.LogAttrs(ctx, slog.LevelInfo, "context not stored", append(stepAttrs(ev), slog.Any("err", err))...)
		return ev, nil
	case err != nil:
		return ev, fmt.Errorf("store context of %s: %w", ev.ID, err)
	}
	ev.Context, ev.ContextHash = blob.URL(c.publicURL), blob.Hash()
	return ev, nil
}

// hashed adds the hash of what a step refers to here, where the step has none.
func (c contexts) hashed(ctx context.Context, ev federation.Event) (federation.Event, error) {
	capability := federation.CapabilityIn(ev.Context)
	if capability == "" || ev.ContextHash != "" || !strings.HasPrefix(ev.Context, c.publicURL+federation.BlobPath) {
		return ev, nil
	}
	blob, err := c.record.Blob(ctx, capability, time.Now())
	if errors.Is(err, federation.ErrNotFound) {
		return ev, nil
	}
	if err != nil {
		return ev, fmt.Errorf("read context of %s: %w", ev.ID, err)
	}
	ev.ContextHash = blob.Hash()
	return ev, nil
}

// mount registers the route of what is stored.
func (c contexts) mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+federation.BlobPath+"{capability}", c.serve)
}

// serve answers with a blob or a part of it. Who has its name may read it; what it is
// nobody here knows, so that no browser is to open it.
func (c contexts) serve(w http.ResponseWriter, r *http.Request) {
	capability, err := federation.ParseCapability(r.PathValue("capability"))
	var blob federation.Blob
	if err == nil {
		blob, err = c.record.Blob(r.Context(), capability, time.Now())
	} else {
		err = federation.ErrNotFound
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		answer(w, http.StatusNotFound, []byte(`{"error":"not_found","message":"there is no such context, or not any more"}`))
		return
	case err != nil:
		c.log.LogAttrs(r.Context(), slog.LevelError, "context not served", slog.Any("err", err))
		w.Header().Set("Retry-After", "5")
		answer(w, http.StatusServiceUnavailable, []byte(`{"error":"unavailable","message":"not now; ask again"}`))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("ETag", `"`+blob.Hash()+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(blob.Content))
}
