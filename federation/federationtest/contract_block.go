package federationtest

import (
	"context"

	"baton/federation"
)

// BlockList keeps the blocks of operators, with the promises of [Store].
type BlockList interface {
	// AddBlock keeps a block, in the place of one that names the same. It forgets blocks
	// that are over at the time that the new one begins.
	AddBlock(ctx context.Context, b federation.Block) error
	// RemoveBlock ends a block. It returns [federation.ErrNotFound] for a text that none has.
	RemoveBlock(ctx context.Context, what string) error
	// BlocksAfter returns up to limit blocks after a text, in the order of their What.
	// Expired blocks may be among them.
	BlocksAfter(ctx context.Context, what string, limit int) ([]federation.Block, error)
}
