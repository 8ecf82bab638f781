package macp

import (
	"time"

	"baton/bridge/stepbuilder"
	"baton/federation/store/journals"
)

// Bounds are the limits of the gateway that hold for sessions.
type Bounds struct {
	Finished  time.Duration // for which an ended session can be read; 0 for ever
	ClockSkew time.Duration // that the time of a new session may be off
}

// Deps is what the network needs of the gateway beside [bridge.Ports].
type Deps struct {
	Journals *journals.Journals // the histories of sessions
	Steps    stepbuilder.Record
	Bounds   func() Bounds
	Version  string // of the program, which clients are told
}
