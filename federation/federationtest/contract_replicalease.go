package federationtest

import (
	"context"
)

// ReplicaLeases gives each job of a home to one of the replicas that have its record open. A
// lease is named after the job, such as the link that it runs.
type ReplicaLeases interface {
	// RunExclusive calls do each time that this replica has a lease, until ctx ends, and
	// returns why ctx ended. The context of do ends with ctx, or when the lease is lost: then
	// do has half a second to return before another replica may begin. Concurrent calls for one
	// lease within one replica share it.
	//
	// A replica that ends or is killed frees its leases at once, and one that is cut off from
	// the record within three seconds. Another replica has them two seconds later at most.
	RunExclusive(ctx context.Context, lease string, do func(ctx context.Context)) error
}
