package federation

import "time"

// AddedHome is another home that was inspected and, where each check passed, added.
type AddedHome struct {
	Home     KnownHome
	Findings []Finding
	Canary   *CanaryReport // nil where none was sent
}

// CanaryReport is the result of a canary: a handoff between two homes that shows whether steps go
// both ways.
type CanaryReport struct {
	Handoff HandoffID
	Green   bool // the other home completed it
	Took    time.Duration
	Reason  string // where it is not green, for operators
}

// MovedInbox is the result of moving the mailbox of a DID to another home.
type MovedInbox struct {
	DID     DID
	Home    HomeID // the mailbox home from now on
	Taken   int    // entries that the new home has
	Waiting int    // unread entries that are still here
}
