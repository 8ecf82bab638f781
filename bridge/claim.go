package bridge

import (
	"time"

	"baton/federation"
)

// IdentityClaim is what a gateway may state about the identity of a person, given how the
// person was identified.
//
// spec: freeq identity-claims
type IdentityClaim string

// The claims, from the strongest to none.
const (
	Anchored   IdentityClaim = "atProtocol" // a DID with a document of its own: its owner can change keys and keep the name
	SelfIssued IdentityClaim = "selfIssued" // a did:key: its owner holds the key, and no document confirms it
	Relayed    IdentityClaim = "relayed"    // another server names the account, and this gateway did not check it
	Guest      IdentityClaim = "guest"      // a nick without an account
	LookingUp  IdentityClaim = "lookingUp"  // the answer is pending: state nothing yet
	Unknown    IdentityClaim = "unknown"    // nothing is known, which is no evidence for a guest
)

// stamped returns the time from which servers mark each message with the account of its sender.
// An older message without a mark may have a sender with an account.
//
// spec: freeq identity-claims "stamping_epoch"
func stamped() time.Time { return time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC) }

// Lookup is the state of the look-up of the account behind a name.
type Lookup string

// The states. The zero Lookup was never asked.
const (
	InFlight   Lookup = "inFlight"
	NoAccount  Lookup = "noAccount"  // the answer: a guest
	NoSuchName Lookup = "noSuchNick" // the answer: no user has that name
	TimedOut   Lookup = "timedOut"
)

// Seen is what one message says about its sender, and what is known of the sender now.
type Seen struct {
	Account federation.DID // that the message is marked with; empty for none
	Origin  string         // the server that relayed it, empty for our own
	Present bool           // the sender is connected now
	Live    federation.DID // of the sender now, or as the look-up found it
	At      time.Time      // of the message; zero where it does not say
}

// ClaimOfMessage returns the claim about the sender of a message. The mark of the message takes
// precedence over the user that has the name now. The DID is empty where none is known.
func ClaimOfMessage(s Seen) (IdentityClaim, federation.DID) {
	switch {
	case s.Origin != "":
		return relayed(s.Account != ""), s.Account
	case s.Account != "":
		return claimOf(s.Account), s.Account
	case s.Present && s.Live != "":
		return claimOf(s.Live), s.Live
	case s.Present, !s.At.IsZero() && !s.At.Before(stamped()):
		return Guest, ""
	}
	return Unknown, ""
}

// ClaimOfPerson returns the claim about the person behind a name, where no message proves
// one: the DID that the name is bound to here, else what a peer states, which may be an
// account.
func ClaimOfPerson(bound federation.DID, byPeer, account bool, asked Lookup) (IdentityClaim, federation.DID) {
	switch {
	case bound != "":
		return claimOf(bound), bound
	case byPeer:
		return relayed(account), ""
	}
	return answered(asked), ""
}

func claimOf(did federation.DID) IdentityClaim {
	if did.Method() == "key" {
		return SelfIssued
	}
	return Anchored
}

func relayed(account bool) IdentityClaim {
	if account {
		return Relayed
	}
	return Guest
}

func answered(asked Lookup) IdentityClaim {
	switch asked {
	case InFlight:
		return LookingUp
	case NoAccount:
		return Guest
	case NoSuchName, TimedOut:
	}
	return Unknown
}
