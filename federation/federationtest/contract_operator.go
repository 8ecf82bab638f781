package federationtest

import (
	"context"

	"baton/federation"
)

// BoundNames keeps the names that operators bound. Its promises are in [Store].
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

// Deliveries tells operators the state of deliveries. Its promises are in [Store].
type Deliveries interface {
	// Deliveries returns the state of the deliveries of a handoff, in the order of the steps,
	// then of the links and of the agents. It looks for pending ones in the outboxes of these
	// links alone.
	Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error)
	// Backlog counts the outbox of a link.
	Backlog(ctx context.Context, link string) (federation.Backlog, error)
}
