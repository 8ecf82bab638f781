package operatorapi

import (
	"context"
	"strings"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation/agents"
)

// releaseHandle releases a handle. The next caller that registers it inherits its inbox and consent.
func (o *Operator) releaseHandle(ctx context.Context, in contract.ActOnHandle) (Acted, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	ask, handle := ask, strings.TrimPrefix(in.Handle, "@")
	if !agents.ReadHere(handle) {
		return Acted{}, usage(handle + " is no handle of an agent here")
	}
	agent, err := o.deps.Record.Agent(ctx, handle)
	if err == nil && !ask.DryRun {
		err = o.deps.Record.ReleaseHandle(ctx, handle, time.Now())
	}
	if isNotFound(err) {
		return Acted{}, errNone("agent " + handle)
	}
	if err != nil {
		return Acted{}, err
	}
	changed := 1
	if !agent.Released.IsZero() {
		changed = 0
	}
	return o.acted(ctx, "airc release", handle, ask, changed), nil
}
