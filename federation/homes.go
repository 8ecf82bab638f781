package federation

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// Ruling is a home's signed statement that it filed one step: at which version of the log,
// and with which hash chain. Another home files the step by it. Two rulings that contradict
// each other prove equivocation.
type Ruling struct {
	Home    HomeID
	Handoff HandoffID
	Event   EventID
	Version Version   // of the log with the step, from 1
	Chain   [32]byte  // see [Link]
	Party   DID       // the party that the home found the signer to be, where that is another DID
	Via     HomeID    // the home through which the step came, where that is another one
	Filed   time.Time // by the clock of the home

	Document  string // exactly as signed
	Signature string // as it stood on the wire
}

// Voucher is a home's signed statement that a step belongs to one of its participants. It
// travels with the step to every home that gets it, because the home of the handoff cannot
// make this statement.
type Voucher struct {
	Document  string `json:"document"`  // exactly as signed
	Signature string `json:"signature"` // as it stood on the wire
}

// Link returns the chain of hashes after a step: the SHA-256 of the link before it,
// 32 zero bytes before the first, and of the SHA-256 of what was signed. Only the
// home that orders the steps can say it, since no signer knows what precedes his own.
func Link(before [32]byte, document string) [32]byte {
	signed := sha256.Sum256([]byte(document))
	return sha256.Sum256(append(before[:], signed[:]...))
}

// Fork is the proof that a home signed two histories of one handoff: two rulings that
// cannot both stand.
type Fork struct {
	Home    HomeID
	Handoff HandoffID
	Version Version // at which they part
	First   Ruling  // the one that was filed here
	Second  Ruling
	Found   time.Time
}

// MailboxLocation says which home has the mailbox of a DID, and from which source this is
// known. The mailbox home owns delivery to the DID.
type MailboxLocation struct {
	DID    DID
	Home   HomeID
	Source LocationSource
	Since  time.Time // when it was learned
	From   HomeID    // where it was before an operator moved it; empty for every other source
}

// LocationSource is the source from which a mailbox location is known.
type LocationSource string

// The sources.
const (
	LocatedByName     LocationSource = "name"     // a did:web below the home's own
	LocatedByDocument LocationSource = "document" // the service entry of its DID document
	LocatedByAnswer   LocationSource = "answer"   // the home said so when it was asked
	LocatedByStep     LocationSource = "step"     // the home brought a step of the DID
	LocatedByMove     LocationSource = "move"     // an operator moved it
	LocatedByLogin    LocationSource = "login"    // the DID proved itself to this gateway
	LocatedByHost     LocationSource = "host"     // the well-known document of a did:web's host names a home

	// The record keeps no location of these sources: they are looked up each time.

	LocatedHere      LocationSource = "sight"   // the DID is an agent of this gateway, or was seen on a network of it
	LocatedByBinding LocationSource = "binding" // the operator bound it under the name of the home
)

// MovedMailbox says that an operator moved the mailbox of a DID to another home.
type MovedMailbox struct {
	DID  DID    `json:"did"`
	Home HomeID `json:"home"` // where it is now
}

// GapError is returned for a ruling on a step whose predecessors are missing here. The home
// sends them when it learns how far the log goes.
type GapError struct {
	Have Version // of the log here; 0 without one
	Want Version // of the ruling
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("the log has %d steps, and this is step %d", e.Have, e.Want)
}

// ForkError is returned for a ruling that contradicts one that was filed. It is final:
// the proof is kept.
type ForkError struct{ Fork Fork }

// Error implements error.
func (e *ForkError) Error() string {
	return fmt.Sprintf("home %s tells two histories of %s: they part at step %d", e.Fork.Home, e.Fork.Handoff, e.Fork.Version)
}
