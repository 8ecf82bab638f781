package federation

import (
	"time"
)

// BoundName is an operator's word that a name on a network stands for a DID.
type BoundName struct {
	Network string // name of a link
	Name    string // of an account or an agent, as the network spells it
	DID     DID
	Vouch   bool      // the gateway may sign steps for the DID
	Since   time.Time // zero for one that the configuration gives
}

// DeliveryState is where the delivery of one step to one link stands.
type DeliveryState string

// The states of a delivery, each with what is next.
const (
	DeliveryWaiting   DeliveryState = "waiting"   // retries go on; an agent has not fetched it, or has not consented
	DeliveryDelivered DeliveryState = "delivered" // over: the peer has it
	DeliveryRefused   DeliveryState = "refused"   // over: the link will never take it, as its code says
	DeliveryExpired   DeliveryState = "expired"   // over: its handoff ended before it was shown, or it was not fetched in time
	DeliveryDead      DeliveryState = "dead"      // over: given up; mostly there is a [DeadLetter]
)

// Delivered is what became of a step on its way to a link, or to one agent of the
// registry.
type Delivered struct {
	Event       EventID
	Link        string
	Participant string // handle, or for a [WebhookLink] and an [InboxLink] the DID; "" for a link that delivers to all it has
	State       DeliveryState
	// Attempt is how often a step that waits was handed to the link.
	Attempt int
	Next    time.Time // of one that waits: when it is tried; zero for at once
	Reason  string    // of one that waits, why the last attempt failed; of a refused one its code; of a dead one its reason
	Ended   time.Time // zero while it waits
}

// InboxLink stands for a link's name in deliveries to an inbox that its DID reads here. No
// link has this name. A step is delivered to the inbox where it has no other way to the DID:
// no link, no other home, no webhook. A DID that was seen reading its inbox here has this way
// too where the step was written in a channel. In a remote handoff this gateway delivers to
// its own participants alone.
const InboxLink = "inbox"

// UnroutedLink is the name of the outbox of steps for DIDs whose mailbox home is not known, or is
// no peer now.
const UnroutedLink = "homes"

// Backlog is what a link has still to deliver.
type Backlog struct {
	Rows   int
	Oldest time.Time // when the oldest of them was filed; zero when there is none
}
