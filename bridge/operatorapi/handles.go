package operatorapi

import (
	"context"
	"strings"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation/agents"
)

// ReleaseHandle implements [contract.StrictServerInterface]. The next caller that registers the
// handle inherits its inbox and consent.
func (o *Operator) ReleaseHandle(ctx context.Context, req contract.ReleaseHandleRequestObject) (contract.ReleaseHandleResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask, handle := *req.Body, strings.TrimPrefix(req.Handle, "@")
	if !agents.ReadHere(handle) {
		return nil, usage(handle + " is no handle of an agent here")
	}
	agent, err := o.deps.Handles.Agent(ctx, handle)
	if err == nil && !ask.DryRun {
		err = o.deps.Handles.ReleaseHandle(ctx, handle, time.Now())
	}
	if isNotFound(err) {
		return nil, errNone("agent " + handle)
	}
	if err != nil {
		return nil, err
	}
	changed := 1
	if !agent.Released.IsZero() {
		changed = 0
	}
	return contract.ReleaseHandle200JSONResponse(o.acted(ctx, "airc release", handle, ask, changed)), nil
}
