package bridge

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

	"github.com/baton-gateway/baton/federation"
)

// Contexts implements [Evidence] on the record. Its methods may be called concurrently.
type Contexts struct {
	Blobs     federation.Blobs
	Originals Originals
	// Admit returns the reason why a DID must not upload a context now; nil admits all DIDs.
	Admit     func(ctx context.Context, owner federation.DID, now time.Time) error
	PublicURL string
	Limits    func() (one, ofDID int64) // maximum bytes of one context, and of all contexts of a DID; 0 means no limit per DID
	Log       *slog.Logger
}

// Originals stores the evidence of renditions.
type Originals interface {
	// Keep files the evidence of a rendition. After a nil error, the evidence is on disk.
	Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error
}

// Keep implements [Evidence].
func (c Contexts) Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error {
	return c.Originals.Keep(ctx, id, evidence)
}

// Store implements [Evidence].
func (c Contexts) Store(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error) {
	if c.Admit != nil {
		if err := c.Admit(ctx, owner, time.Now()); err != nil {
			return federation.Blob{}, err
		}
	}
	return c.keep(ctx, owner, federation.HandoffID{}, content)
}

func (c Contexts) keep(ctx context.Context, owner federation.DID, of federation.HandoffID, content []byte) (federation.Blob, error) {
	one, ofDID := c.Limits()
	if int64(len(content)) > one {
		return federation.Blob{}, federation.ErrBlobTooLarge
	}
	blob, err := federation.NewBlob(owner, content, rand.Reader, time.Now())
	if err != nil {
		return federation.Blob{}, err
	}
	return c.Blobs.KeepBlob(ctx, blob, of, ofDID)
}

// Refer implements [Evidence].
func (c Contexts) Refer(ctx context.Context, ev federation.Event) (federation.Event, error) {
	if !federation.InlineContext(ev.Context) {
		return c.hashed(ctx, ev)
	}
	blob, err := c.keep(ctx, ev.Actor(), ev.Handoff, []byte(ev.Context))
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge), errors.Is(err, federation.ErrBlobQuota):
		c.Log.LogAttrs(ctx, slog.LevelInfo, "context not stored",
			slog.String("event_id", ev.ID.String()), slog.String("handoff_id", ev.Handoff.String()), slog.Any("err", err))
		return ev, nil
	case err != nil:
		return ev, fmt.Errorf("store context of %s: %w", ev.ID, err)
	}
	ev.Context, ev.ContextHash = blob.URL(c.PublicURL), blob.Hash()
	return ev, nil
}

func (c Contexts) hashed(ctx context.Context, ev federation.Event) (federation.Event, error) {
	capability := federation.CapabilityIn(ev.Context)
	if capability == "" || ev.ContextHash != "" || !strings.HasPrefix(ev.Context, c.PublicURL+federation.BlobPath) {
		return ev, nil
	}
	blob, err := c.Blobs.Blob(ctx, capability, time.Now())
	if errors.Is(err, federation.ErrNotFound) {
		return ev, nil
	}
	if err != nil {
		return ev, fmt.Errorf("read context of %s: %w", ev.ID, err)
	}
	ev.ContextHash = blob.Hash()
	return ev, nil
}

// ContextServer serves the contexts in [Contexts] to holders of their capabilities. It sets no
// media type that a browser would open, because the type is unknown.
type ContextServer struct {
	Blobs federation.Blobs
	Log   *slog.Logger
}

// Mount registers the route.
func (s ContextServer) Mount(mux *http.ServeMux) {
	mux.Handle("GET "+federation.BlobPath+"{capability}", s)
}

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
