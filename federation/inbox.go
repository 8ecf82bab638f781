package federation

import (
	"errors"
	"time"
)

// ErrLeaseLost is returned by the record for a lease that ended: another device got the entry
// meanwhile, the entry was put back, or it does not wait any more.
var ErrLeaseLost = errors.New("federation: lease lost")

// ErrTooManyDevices is returned by the record for a device that would be one more than
// [MaxDevices].
var ErrTooManyDevices = errors.New("federation: too many devices")

// MaxDevices is how many devices one DID may read its inbox with.
const MaxDevices = 16

// CursorError is the [ErrUnknownCursor] of an inbox or of its devices. A caller goes on from the
// zero Cursor, which reads the whole inbox again (event IDs identify entries that it has seen), or
// from Newest, which reads only later entries.
type CursorError struct {
	Newest Cursor // zero for an inbox that nothing ever reached
}

// Error implements error.
func (e *CursorError) Error() string {
	return ErrUnknownCursor.Error() + ": read on from the start, or only what comes from now on"
}

// Unwrap returns [ErrUnknownCursor].
func (e *CursorError) Unwrap() error { return ErrUnknownCursor }

// Undelivered is an entry that waits in an inbox.
type Undelivered struct {
	To    DID
	Entry Entry
	View  View // of the handoff as it stands now
}

// Hold names one lease of one entry.
type Hold struct {
	Cursor   Cursor // of the entry, in the inbox that it is in
	Device   string // that has it
	Delivery int    // how often the entry was leased, this time included
}

// Lease is an entry that one device is working on.
type Lease struct {
	Hold

	Entry Entry
	Until time.Time // when another device may get the entry
}

// Device is one reader of an inbox, with a place of its own in it.
type Device struct {
	Name   string
	Cursor Cursor    // it has read the inbox up to here; zero for not at all
	Since  time.Time // when it was first heard of
	Seen   time.Time // when it last moved
}
