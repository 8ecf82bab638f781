package bridge

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"baton/federation"
)

// ContextServer serves the contexts that [Contexts] keeps. The holder of a capability may read the
// context; the gateway does not know its type, so that no browser opens it.
type ContextServer struct {
	Blobs federation.Blobs
	Log   *slog.Logger
}

// Mount registers the route.
func (s ContextServer) Mount(mux *http.ServeMux) {
	mux.Handle("GET "+federation.BlobPath+"{capability}", s)
}

// ServeHTTP answers with a context or a part of it.
func (s ContextServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	capability, err := federation.ParseCapability(r.PathValue("capability"))
	var blob federation.Blob
	if err == nil {
		blob, err = s.Blobs.Blob(r.Context(), capability, time.Now())
	} else {
		err = federation.ErrNotFound
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		s.fail(w, http.StatusNotFound, `{"error":"not_found","message":"there is no such context, or not any more"}`)
		return
	case err != nil:
		s.Log.LogAttrs(r.Context(), slog.LevelError, "context not served", slog.Any("err", err))
		s.fail(w, http.StatusServiceUnavailable, `{"error":"unavailable","message":"not now; ask again"}`)
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

func (ContextServer) fail(w http.ResponseWriter, status int, document string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(document + "\n")) // the client is gone
}
