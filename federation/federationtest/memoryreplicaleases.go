package federationtest

import "context"

// RunExclusive implements [ReplicaLeases]: no other process has the record.
func (*Memory) RunExclusive(ctx context.Context, _ string, do func(context.Context)) error {
	do(ctx)
	<-ctx.Done()
	return context.Cause(ctx)
}
