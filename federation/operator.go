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
	DeliveryWaiting   DeliveryState = "waiting"   // the feed tries it, or tries it again; an agent fetches it, or is asked to consent
	DeliveryDelivered DeliveryState = "delivered" // over: the peer has it
	DeliveryRefused   DeliveryState = "refused"   // over: the link will never take it, as its code says
	DeliveryExpired   DeliveryState = "expired"   // over: its handoff ended before anybody was shown it, or nobody fetched it
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

// InboxLink is how deliveries to those who read their inbox here are called, where those
// to links have the name of the link. No link has it. The inbox is the way of a step to
// somebody who has no other: no participant of a link, no link that brought it to them or to
// their home, no hook. Who was seen reading here has that way too where the step was
// written in a channel. In a handoff of another home that one sees to its own people.
const InboxLink = "inbox"

// Backlog is what a link has still to deliver.
type Backlog struct {
	Rows   int
	Oldest time.Time // when the oldest of them was filed; zero when there is none
}
