package federation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Ruling is a home's signed statement that it filed one step, with the version and the hash chain of
// the log. Other homes file the step because of it. Two contradictory rulings prove equivocation.
type Ruling struct {
	Home    HomeID
	Handoff HandoffID
	Event   EventID
	Version Version
	Chain   [32]byte  // see [Link]
	Party   DID       // the signer's party according to the home, if different
	Via     HomeID    // the home that sent the step, if different
	Filed   time.Time // by the home's clock

	Document  string
	Signature string
}

// Voucher is a home's signed statement that a step belongs to one of its participants. It travels with
// the step, because the home of the handoff cannot make this statement.
type Voucher struct {
	Document  string `json:"document"`
	Signature string `json:"signature"`
}

// Link returns the hash chain after a step: SHA-256(before || SHA-256(document)). The chain starts with
// 32 zero bytes.
func Link(before [32]byte, document string) [32]byte {
	signed := sha256.Sum256([]byte(document))
	return sha256.Sum256(append(before[:], signed[:]...))
}

// Fork is two contradictory rulings, which prove that a home signed two histories of one handoff.
type Fork struct {
	Home    HomeID
	Handoff HandoffID
	Version Version // at which they diverge
	First   Ruling
	Second  Ruling
	Found   time.Time
}

// MailboxLocation is the mailbox home of a DID, with its source.
type MailboxLocation struct {
	DID    DID
	Home   HomeID
	Source LocationSource
	Since  time.Time
	Former []HomeID // before operators moved it, latest first; nil for other sources
}

// LocationSource is the source of a mailbox location.
type LocationSource string

// The sources of mailbox locations.
const (
	LocatedByName     LocationSource = "name"     // did:web below the home's own
	LocatedByDocument LocationSource = "document" // service entry of the DID document
	LocatedByAnswer   LocationSource = "answer"   // confirmed by the home on request
	LocatedByStep     LocationSource = "step"     // the home sent a step of the DID
	LocatedByMove     LocationSource = "move"     // moved by an operator
	LocatedByLogin    LocationSource = "login"    // the DID logged in here
	LocatedByHost     LocationSource = "host"     // well-known document of its host

	// Not stored, but looked up each time.

	LocatedHere      LocationSource = "sight"   // an agent of this gateway, or seen on one of its networks
	LocatedByBinding LocationSource = "binding" // bound by an operator under the name of the home
)

// MovedMailbox is a mailbox moved by an operator.
type MovedMailbox struct {
	DID  DID    `json:"did"`
	Home HomeID `json:"home"`
}

// GapError is returned for a ruling if earlier steps are missing here.
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
	URL   string // without a path
	Path  string
	Since time.Time
}

// AddedHome is the result of checking another home. It was added if every check passed.
type AddedHome struct {
	Home     KnownHome
	Findings []Finding
	Canary   *CanaryReport
}

// CanaryReport is the result of a canary: a test handoff, delivered in both directions.
type CanaryReport struct {
	Handoff HandoffID
	Green   bool // the other home completed it
	Took    time.Duration
	Reason  string
}

// MovedInbox is the result of moving a mailbox.
type MovedInbox struct {
	DID     DID
	Home    HomeID
	Taken   int
	Waiting int
}

// Misbehavior is a refused claim of another home. The home may be malicious, or only have different
// data.
type Misbehavior struct {
	Home  HomeID
	Kind  MisbehaviorKind
	Times int
	First time.Time
	Last  time.Time
	Why   string // last reason
}

// MisbehaviorKind is the subject of a claim.
type MisbehaviorKind string

// The kinds of misbehavior.
const (
	MisbehaviorVoice   MisbehaviorKind = "voice"   // vouched for a DID whose mailbox is elsewhere
	MisbehaviorMailbox MisbehaviorKind = "mailbox" // two homes claim one mailbox for longer than a move takes
	MisbehaviorRuling  MisbehaviorKind = "ruling"  // sent a ruling that the named home did not sign
	MisbehaviorStep    MisbehaviorKind = "step"    // sent a step that the named signer did not sign
)

// Pending is a step without a ruling. It is in no log and does not change the handoff. The home of the
// handoff decides with a [Confirm], or with a conflicting step.
type Pending struct {
	Event Event
	Home  HomeID
	Since time.Time
}

// ProfilePath is the path of the [HomeProfile] of a home.
const ProfilePath URLPath = "/.well-known/baton"

// SignatureHeader is the header for a home's signature over the body.
const SignatureHeader = "Baton-Signature"

// HomeProtocol is the supported version ("v") of messages and documents between homes.
const HomeProtocol = 1

// HomeProfileType is the type of a [HomeProfile]. A signature covers the type, so that it is not valid
// for another document.
const HomeProfileType = "home"

// HomeProfile is a home's signed document about itself.
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

// HomeLimits contains the limits for messages from another home.
type HomeLimits struct {
	Steps     int   `json:"steps"`      // per batch
	Bytes     int   `json:"bytes"`      // per batch
	Hops      int   `json:"hops"`       // per step; 0 for no limit
	ClockSkew int64 `json:"clock_skew"` // tolerated difference in seconds
}

// ParseHomeProfile rejects unknown and repeated members. The caller must verify the signature.
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
