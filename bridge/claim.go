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
	SelfIssued IdentityClaim = "selfIssued" // a did:key: its owner holds the key, and nobody else knows more
	Relayed    IdentityClaim = "relayed"    // another server says who it is, and nobody here checked
	Guest      IdentityClaim = "guest"      // a nick without an account
	LookingUp  IdentityClaim = "lookingUp"  // the answer is on its way: say nothing yet
	Unknown    IdentityClaim = "unknown"    // nothing is known, which is no evidence for a guest
)

// stamped is since when servers mark each message with the account of its sender.
// Before, a message without one says nothing of whether there was an account.
//
// spec: freeq identity-claims "stamping_epoch"
func stamped() time.Time { return time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC) }

// Lookup is how far the question has come who bears a name.
type Lookup string

// The lookups. The zero Lookup was never asked.
const (
	InFlight   Lookup = "inFlight"
	NoAccount  Lookup = "noAccount"  // the answer: a guest
	NoSuchName Lookup = "noSuchNick" // the answer: nobody is there by that name
	TimedOut   Lookup = "timedOut"
)

// Seen is what came with one message, and what is known of its sender now.
type Seen struct {
	Account federation.DID // that the message is marked with; empty for none
	Origin  string         // the server that relayed it, empty for our own
	Present bool           // the sender is here now
	Live    federation.DID // under which the sender is here now, or was found
	At      time.Time      // of the message; zero where it does not say
}

// ClaimOfMessage says who a message is from. What it was marked with counts, not who
// bears the name now; the DID is empty where none can be named.
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

// ClaimOfSender says who bears the name that a message came under. Who is there now
// counts before what the message was marked with.
func ClaimOfSender(s Seen, asked Lookup) (IdentityClaim, federation.DID) {
	if s.Origin == "" && s.Live != "" {
		return claimOf(s.Live), s.Live
	}
	claim, did := ClaimOfMessage(s)
	if claim != Unknown {
		return claim, did
	}
	return answered(asked), ""
}

// ClaimOfPerson returns the claim about the person behind a name, where no message proves
// one: the DID that the name is bound to here, else the word of a peer, which may name an
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
