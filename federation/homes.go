package federation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Ruling is a home's signed statement that it filed one step, with the version of the log and the
// hash chain. Other homes file the step because of it. Two contradictory rulings prove
// equivocation.
type Ruling struct {
	Home    HomeID
	Handoff HandoffID
	Event   EventID
	Version Version   // version of the log with the step, from 1
	Chain   [32]byte  // see [Link]
	Party   DID       // the signer's party according to the home, if it is another DID
	Via     HomeID    // the home that sent the step, if it is another one
	Filed   time.Time // by the clock of the home

	Document  string // exactly as signed
	Signature string // as received on the wire
}

// Voucher is a home's signed statement that a step belongs to one of its participants. It
// accompanies the step, because the home of the handoff cannot make this statement.
type Voucher struct {
	Document  string `json:"document"`
	Signature string `json:"signature"`
}

// Link returns the hash chain after a step: the SHA-256 of the previous link (at first 32 zero
// bytes) and the SHA-256 of the signed document. Only the home that orders the steps can compute
// it.
func Link(before [32]byte, document string) [32]byte {
	signed := sha256.Sum256([]byte(document))
	return sha256.Sum256(append(before[:], signed[:]...))
}

// Fork is two contradictory rulings, which prove that a home signed two histories of one handoff.
type Fork struct {
	Home    HomeID
	Handoff HandoffID
	Version Version // at which they diverge
	First   Ruling  // the one filed here
	Second  Ruling
	Found   time.Time
}

// MailboxLocation is the mailbox home of a DID, with the source of this information.
type MailboxLocation struct {
	DID    DID
	Home   HomeID
	Source LocationSource
	Since  time.Time
	Former []HomeID // homes before operators moved it, latest first; nil for other sources
}

// LocationSource is the source of a mailbox location.
type LocationSource string

// The sources of mailbox locations.
const (
	LocatedByName     LocationSource = "name"     // a did:web below the home's own
	LocatedByDocument LocationSource = "document" // the service entry of its DID document
	LocatedByAnswer   LocationSource = "answer"   // the home confirmed it on request
	LocatedByStep     LocationSource = "step"     // the home sent a step of the DID
	LocatedByMove     LocationSource = "move"     // an operator moved it
	LocatedByLogin    LocationSource = "login"    // the DID was proved to this gateway
	LocatedByHost     LocationSource = "host"     // the well-known document of its host names it

	// These locations are not stored, but looked up each time.

	LocatedHere      LocationSource = "sight"   // an agent of this gateway, or seen on one of its networks
	LocatedByBinding LocationSource = "binding" // the operator bound it under the name of the home
)

// MovedMailbox records that an operator moved the mailbox of a DID to another home.
type MovedMailbox struct {
	DID  DID    `json:"did"`
	Home HomeID `json:"home"`
}

// GapError is returned for a ruling if earlier steps are missing here. The home sends them when it
// learns the length of the log.
type GapError struct {
	Have Version // 0 for no log
	Want Version
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("the log has %d steps, and this is step %d", e.Have, e.Want)
}

// ForkError is returned for a ruling that contradicts a filed one. It is final.
type ForkError struct{ Fork Fork }

// Error implements error.
func (e *ForkError) Error() string {
	return fmt.Sprintf("home %s sent conflicting histories of %s: they differ from step %d", e.Fork.Home, e.Fork.Handoff, e.Fork.Version)
}

// KnownHome is another home that an operator added while the gateway ran.
type KnownHome struct {
	Home  HomeID
	URL   string // base address, without a path
	Path  string // relay or https
	Since time.Time
}

// AddedHome is the result of checking another home. The home was added if it passed every check.
type AddedHome struct {
	Home     KnownHome
	Findings []Finding
	Canary   *CanaryReport // nil if none was sent
}

// CanaryReport is the result of a canary: a handoff that tests delivery in both directions.
type CanaryReport struct {
	Handoff HandoffID
	Green   bool // the other home completed it
	Took    time.Duration
	Reason  string
}

// MovedInbox is the result of moving the mailbox of a DID to another home.
type MovedInbox struct {
	DID     DID
	Home    HomeID
	Taken   int
	Waiting int
}

// Misbehavior is an invalid signed claim of another home, which was refused. Operators must find
// out whether the home is malicious, or only has different data.
type Misbehavior struct {
	Home  HomeID
	Kind  MisbehaviorKind
	Times int
	First time.Time
	Last  time.Time
	Why   string // of the last occurrence, for people
}

// MisbehaviorKind is the subject of a claim.
type MisbehaviorKind string

// The kinds of misbehavior.
const (
	MisbehaviorVoice   MisbehaviorKind = "voice"   // it vouched for a DID whose mailbox is at another home
	MisbehaviorMailbox MisbehaviorKind = "mailbox" // two homes claim one mailbox for longer than a move
	MisbehaviorRuling  MisbehaviorKind = "ruling"  // it sent a ruling that the named home did not sign
	MisbehaviorStep    MisbehaviorKind = "step"    // it sent a step that the named signer did not sign
)

// Pending is a step without a ruling of the home of its handoff. It is in no log and does not
// change the handoff. Its home decides with a [Confirm], or with a conflicting step.
type Pending struct {
	Event Event
	Home  HomeID
	Since time.Time
}

// ProfilePath is the path of the [HomeProfile] of a home.
const ProfilePath URLPath = "/.well-known/baton"

// SignatureHeader is the header with a home's signature over the body.
const SignatureHeader = "Baton-Signature"

// HomeProtocol is the only supported version ("v") of messages and documents between homes.
const HomeProtocol = 1

// HomeProfileType is the type of a [HomeProfile]. A signature is valid only for the type in its
// document.
const HomeProfileType = "home"

// HomeProfile is the signed document that a home publishes about itself.
type HomeProfile struct {
	Type     string     `json:"type"`
	V        int        `json:"v"`
	Home     HomeID     `json:"home"`
	DID      DID        `json:"did"`
	URL      string     `json:"url"`
	Versions []int      `json:"versions"`
	Limits   HomeLimits `json:"limits"`
	Sent     time.Time  `json:"sent"`
}

// HomeLimits has a home's limits for messages from another home.
type HomeLimits struct {
	Steps     int   `json:"steps"`      // of a batch
	Bytes     int   `json:"bytes"`      // of a batch
	Hops      int   `json:"hops"`       // homes that a step may pass through; 0 for no limit
	ClockSkew int64 `json:"clock_skew"` // tolerated clock difference in seconds
}

// ParseHomeProfile reads a profile strictly: an unknown or repeated member is an error. The caller
// must verify the signature.
func ParseHomeProfile(text []byte) (HomeProfile, error) {
	var p HomeProfile
	if err := ExactJSON(text); err != nil {
		return p, err
	}
	if err := DecodeStrictJSON(text, &p); err != nil {
		return p, err
	}
	switch {
	case p.Type != HomeProfileType || p.V != HomeProtocol:
		return p, fmt.Errorf("want type %q of version %d", HomeProfileType, HomeProtocol)
	case !p.Home.Valid() || p.DID != p.Home.DID():
		return p, errors.New("want the name of a home, and its DID")
	}
	return p, nil
}

// Speaks reports whether the home supports [HomeProtocol].
func (p HomeProfile) Speaks() bool { return slices.Contains(p.Versions, HomeProtocol) }
