// Package translate holds the pure functions between wire messages and events.
// A translator does no I/O, keeps no state, and neither signs nor verifies.
//
// Each format has a folder of its own below this one, with its wire types and a
// [Codec] over them.
package translate

import (
	"errors"

	"baton/federation"
)

// ErrNotHandoff is returned by [Codec.Decode] for a message that is well formed
// and about something else.
var ErrNotHandoff = errors.New("translate: not about a handoff")

// Step is one filed step with what a wire needs beside it.
type Step struct {
	federation.Entry
	View federation.View
	// Name returns what people call a DID.
	Name func(federation.DID) string
}

// Codec turns messages of type W into events and back.
type Codec[W any] interface {
	// Decode reads one message. It returns [ErrNotHandoff] for a message about
	// something else, and a [*federation.RefusalError] for one that cannot be read
	// as a step.
	Decode(w W) (federation.Event, error)
	// Encode writes one step, with what this wire could not carry of it.
	Encode(s Step) (W, []federation.Loss, error)
}
