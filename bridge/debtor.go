package bridge

import (
	"context"

	"baton/federation"
)

// OtherPeers is the label of all peers that no configuration names: anybody may invent
// one, and labels come from closed sets.
const OtherPeers = "others"

// Debtor is a [Link] with peers of its own, for whom things wait in the record.
type Debtor interface {
	Link
	// Owes returns how the queue of each peer stands that the configuration names, also
	// of one that nothing waits for, and of [OtherPeers] together where there are any.
	Owes(ctx context.Context) ([]federation.PeerBacklog, error)
}
