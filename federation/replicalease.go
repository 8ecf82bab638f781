package federation

import "context"

// Duties parts the work of one home among the gateways that have its record open. A duty is
// a name that they agree on, such as that of a link: one of them at a time does it.
type Duties interface {
	// Alone calls do each time that a duty becomes this gateway's, until ctx ends, and
	// returns why that was. The context of do ends with ctx, or when the duty is lost: then do
	// has half a second to end, before another gateway may begin. All who call Alone for one duty
	// in one gateway share it.
	//
	// A gateway that ends or is killed frees its duties at once, and one that is cut off from
	// the record within three seconds. Another one has them two seconds later at most.
	Alone(ctx context.Context, duty string, do func(ctx context.Context)) error
}
