package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// contexts returns what keeps the contexts and the evidence of steps. It asks admit, if that
// is not nil, before it keeps a context that a participant uploads.
func (p *program) contexts(admit func(ctx context.Context, owner federation.DID, now time.Time) error) bridge.Contexts {
	return bridge.Contexts{
		Blobs: p.record, Originals: p.record, Admit: admit, PublicURL: strings.TrimSuffix(p.publicURL, "/"), Log: p.log,
		Limits: func() (one, ofDID int64) { return p.linkLimits.Current().ContextBytes, p.contextsOfDID.Load() },
	}
}

// orMost returns a limit of the configuration as the size that one context may have.
func orMost(limit int64) int64 {
	if limit == 0 || limit > federation.MaxBlobBytes {
		return federation.MaxBlobBytes
	}
	return limit
}

// stored serves what steps refer to here.
type stored struct {
	blobs federation.Blobs
	log   *slog.Logger
}

func (s stored) mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+federation.BlobPath+"{capability}", s.serve)
}

// serve answers with a blob or a part of it. Who has its name may read it; what it is
// nobody here knows, so that no browser is to open it.
func (s stored) serve(w http.ResponseWriter, r *http.Request) {
	capability, err := federation.ParseCapability(r.PathValue("capability"))
	var blob federation.Blob
	if err == nil {
		blob, err = s.blobs.Blob(r.Context(), capability, time.Now())
	} else {
		err = federation.ErrNotFound
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		answer(w, http.StatusNotFound, []byte(`{"error":"not_found","message":"there is no such context, or not any more"}`))
		return
	case err != nil:
		s.log.LogAttrs(r.Context(), slog.LevelError, "context not served", slog.Any("err", err))
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
