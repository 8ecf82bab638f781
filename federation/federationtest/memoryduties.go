package federationtest

import "context"

// Alone implements [federation.Duties]: nobody else has the record.
func (*Memory) Alone(ctx context.Context, _ string, do func(context.Context)) error {
	do(ctx)
	<-ctx.Done()
	return context.Cause(ctx)
}
