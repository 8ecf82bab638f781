package federationtest

import (
	"context"

	"baton/federation"
)

// BoundNames keeps the names that operators bound. Its promises are those of
// [Store].
type BoundNames interface {
	// BindName keeps a binding. It returns [federation.ErrTaken] for a name that is bound to
	// another DID. Binding a name to its DID again changes Vouch alone.
	BindName(ctx context.Context, b federation.BoundName) error
	// UnbindName returns [federation.ErrNotFound] for a name that is not bound.
	UnbindName(ctx context.Context, network, name string) error
	// BoundName returns [federation.ErrNotFound] for a name that is not bound.
	BoundName(ctx context.Context, network, name string) (federation.BoundName, error)
	// BoundNames returns up to limit bindings that come after a name, which may be
	// none, in the order of networks and names.
	BoundNames(ctx context.Context, network, name string, limit int) ([]federation.BoundName, error)
	// NamesOf returns the bindings of a DID, in the same order.
	NamesOf(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
}

// Deliveries tells operators how feeds stand. Its promises are those of [Store].
type Deliveries interface {
	// Deliveries returns what became of the steps of a handoff, in the order of the
	// steps, then of the links and of the agents. Those that wait are looked for in the feeds of
	// these links alone.
	Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error)
	// Backlog counts the feed of a link.
	Backlog(ctx context.Context, link string) (federation.Backlog, error)
}
