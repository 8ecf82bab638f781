package macp

import (
	"context"
	"time"

	"baton/bridge/stepbuilder"
	"baton/federation"
)

// Journals keeps the histories of sessions. Its methods block on the record, and return an error
// that wraps [*federation.UnavailableError] when the record cannot be read or written now.
type Journals interface {
	// WriteJournals appends to journals in one transaction: all writes are on disk when it
	// returns nil, and none after an error. It returns [federation.ErrStale] where a journal
	// has another length than a write expects.
	WriteJournals(ctx context.Context, writes []federation.JournalWrite) error
	// Journal returns up to limit entries of a journal after the first ones, none for an
	// unknown journal.
	Journal(ctx context.Context, name string, after uint64, limit int) ([][]byte, error)
	// JournalLength returns how many entries a journal has, or [federation.ErrNotFound].
	JournalLength(ctx context.Context, name string) (uint64, error)
	// JournalNames returns up to limit names of journals with a prefix in order, after one.
	JournalNames(ctx context.Context, prefix, after string, limit int) ([]string, error)
	// DueJournals returns up to limit names of journals with a prefix that are due by a moment,
	// the longest due first.
	DueJournals(ctx context.Context, prefix string, by time.Time, limit int) ([]string, error)
	// RemoveJournals deletes journals. An unknown name is no error.
	RemoveJournals(ctx context.Context, names []string) error
}

// Bounds are the limits of the gateway that hold for sessions.
type Bounds struct {
	Finished  time.Duration // for which an ended session can be read; 0 for ever
	ClockSkew time.Duration // that the time of a new session may be off
}

// BoundSource has the bounds that hold now.
type BoundSource interface {
	// Bounds returns them. It does not block.
	Bounds() Bounds
}

// Deps is what the network needs of the gateway beside [bridge.Ports].
type Deps struct {
	Journals Journals
	Steps    stepbuilder.Record
	Bounds   BoundSource
	Version  string // of the program, which clients are told
}
