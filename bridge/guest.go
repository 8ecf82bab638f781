package bridge

import (
	"context"

	"baton/federation"
)

// RulingTopic is the topic of a home for whose ruling something new waits.
func RulingTopic(home federation.HomeID) string { return "ruling." + string(home) }

// Teller is a [Link] that can tell somebody on its network what became of a step
// that was taken from them earlier and waited. A network that sends a step more than once
// while it waits has a [Notifier] instead, by which nobody is told twice.
type Teller interface {
	Link
	// Tell says to the sender of a step that it was refused after all. It does not
	// wait for anybody: who has no mailbox and is not there now is not told. Its error
	// means that the sender is still to be told.
	Tell(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error
}
