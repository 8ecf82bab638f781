package bridgetest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// ContextRecord stores contexts and evidence.
type ContextRecord interface {
	federation.Blobs
	bridge.Originals
}

// Contexts stores evidence and contexts in a record, like the gateway gw.example. It bounds the
// bytes of one context, and of all contexts of one owner; 0 for the latter means no limit.
func Contexts(record ContextRecord, one, ofDID int64) bridge.Contexts {
	return bridge.Contexts{
		Blobs: record, Originals: record, PublicURL: "https://gw.example", Log: slog.New(slog.DiscardHandler),
		Limits: func() (int64, int64) { return one, ofDID },
	}
}

// NameRecord stores the names bound to DIDs, and the place of each DID's last signature.
type NameRecord interface {
	// Binding returns the place of a DID's last signed step.
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
	// NameHolder returns the DID with a declared name.
	NameHolder(ctx context.Context, name string, now time.Time) (federation.DID, error)
	NamesOf(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
}

// KeptNames implements [bridge.Bindings] with a record. The test adds its own names and handles.
type KeptNames struct {
	Bindings

	Record NameRecord
}

// Of implements [bridge.Bindings].
func (n KeptNames) Of(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	return n.Record.NamesOf(ctx, did)
}

// Participant implements [bridge.Bindings].
func (n KeptNames) Participant(ctx context.Context, handle string) (federation.DID, error) {
	did, err := n.Bindings.Participant(ctx, handle)
	if errors.Is(err, federation.ErrNotFound) {
		return n.Record.NameHolder(ctx, handle, time.Now())
	}
	return did, err
}

// Seen implements [bridge.Bindings].
func (n KeptNames) Seen(ctx context.Context, did federation.DID) (federation.Binding, error) {
	return n.Record.Binding(ctx, did)
}
