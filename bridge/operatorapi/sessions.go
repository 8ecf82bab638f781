package operatorapi

import (
	"context"
	"errors"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// endSessions invalidates the tokens of the sessions and ends their streams at once.
func (o *Operator) endSessions(ctx context.Context, in contract.SessionsEnd) (Acted, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	did, err := parseDID("did", in.DID)
	if err != nil {
		return Acted{}, err
	}
	names, err := o.sessionNames(ctx, did)
	if err != nil {
		return Acted{}, err
	}
	now := time.Now()
	if ask.DryRun {
		found, err := o.deps.Record.Sessions(ctx, names, now)
		if err != nil {
			return Acted{}, err
		}
		return o.acted(ctx, "token revoke", string(did), ask, len(found)), nil
	}
	ended, err := o.deps.Record.EndSessions(ctx, names, "", false, now)
	if err != nil {
		return Acted{}, err
	}
	for _, name := range names {
		o.deps.Wakes.Wake(bridge.SessionsTopic(name), bridge.InboxTopic(name))
	}
	return o.acted(ctx, "token revoke", string(did), ask, ended), nil
}

// sessionNames returns the names of the participant with a DID in the sessions table.
func (o *Operator) sessionNames(ctx context.Context, did federation.DID) ([]string, error) {
	names := []string{string(did)}
	agent, err := o.deps.Record.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	names = append(names, agent.Handle)
	for _, other := range agent.DIDs() {
		if other != did {
			names = append(names, string(other))
		}
	}
	return names, nil
}
