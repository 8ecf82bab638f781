package federation

import "time"

// Doubt is what a home signed and this one does not believe: it speaks for people or
// homes that are not its own. What it said so is refused. Whether it lies, or the two know
// different things of somebody, is for operators to find out.
type Doubt struct {
	Home  HomeID
	Kind  DoubtKind
	Times int // that it was noted, from 1
	First time.Time
	Last  time.Time
	Why   string // the last time, for people
}

// DoubtKind is what of a home is not believed.
type DoubtKind string

// The kinds of doubts.
const (
	DoubtfulVoice   DoubtKind = "voice"   // it vouched for somebody whose mailbox is elsewhere
	DoubtfulMailbox DoubtKind = "mailbox" // it said that it has a mailbox which is elsewhere
	DoubtfulRuling  DoubtKind = "ruling"  // it sent a ruling that the home which it names did not sign
	DoubtfulStep    DoubtKind = "step"    // it sent a step that the person whom it names did not sign
)
