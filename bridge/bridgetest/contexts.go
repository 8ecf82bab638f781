package bridgetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/federation"
	"baton/translate"
)

// Contexts keeps in a record what steps refer to, as a gateway does for its links.
type Contexts struct {
	Record    federation.Blobs
	PublicURL string
	MaxBytes  int64 // of one context
	MaxStored int64 // of all of one owner; 0 is no limit
}

// Store is that of bridge.Ports.
func (c Contexts) Store(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error) {
	return c.keep(ctx, owner, federation.HandoffID{}, content)
}

func (c Contexts) keep(ctx context.Context, owner federation.DID, of federation.HandoffID, content []byte) (federation.Blob, error) {
	if int64(len(content)) > c.MaxBytes {
		return federation.Blob{}, federation.ErrBlobTooLarge
	}
	blob, err := federation.NewBlob(owner, content, rand.Reader, time.Now())
	if err != nil {
		return federation.Blob{}, err
	}
	return c.Record.KeepBlob(ctx, blob, of, c.MaxStored)
}

// Refer is that of bridge.Ports.
func (c Contexts) Refer(ctx context.Context, ev federation.Event) (federation.Event, error) {
	if !translate.InlineContext(ev.Context) {
		return c.hashed(ctx, ev)
	}
	if blob, err := c.keep(ctx, ev.Actor(), ev.Handoff, []byte(ev.Context)); err == nil {
		ev.Context, ev.ContextHash = blob.URL(c.PublicURL), blob.Hash()
	}
	return ev, nil
}

// hashed adds the hash of what a step refers to here, where the step has none.
func (c Contexts) hashed(ctx context.Context, ev federation.Event) (federation.Event, error) {
	capability := federation.CapabilityIn(ev.Context)
	if capability == "" || ev.ContextHash != "" || !strings.HasPrefix(ev.Context, c.PublicURL+federation.BlobPath) {
		return ev, nil
	}
	blob, err := c.Record.Blob(ctx, capability, time.Now())
	if errors.Is(err, federation.ErrNotFound) {
		return ev, nil
	}
	if err != nil {
		return ev, fmt.Errorf("read context of %s: %w", ev.ID, err)
	}
	ev.ContextHash = blob.Hash()
	return ev, nil
}
