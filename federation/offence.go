package federation

import "time"

// Offence is a signed claim of a home that this one does not believe: the other home speaks
// for people or homes that are not its own. The claim is refused. Operators find out whether
// the home lies, or the two homes know different things.
type Offence struct {
	Home  HomeID
	Kind  OffenceKind
	Times int // from 1
	First time.Time
	Last  time.Time
	Why   string // the last time, for people
}

// OffenceKind is what a claim is about.
type OffenceKind string

// The kinds of offences.
const (
	OffenceVoice   OffenceKind = "voice"   // it vouched for a DID whose mailbox is at another home
	OffenceMailbox OffenceKind = "mailbox" // it said that it has a mailbox which is elsewhere
	OffenceRuling  OffenceKind = "ruling"  // it sent a ruling that the named home did not sign
	OffenceStep    OffenceKind = "step"    // it sent a step that the named signer did not sign
)
