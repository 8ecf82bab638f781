package airc

import (
	"context"

	"baton/bridge"
	"baton/federation"
)

// checkCaller refuses a request from an address, or with the token of an agent, that an
// operator blocked.
func (l *Link) checkCaller(ctx context.Context, c *call) error {
	s := federation.Source{Network: network, Address: bridge.SubnetFrom(ctx)}
	if c.denied == nil {
		s.Participants, s.DIDs = []string{c.agent.Handle}, []federation.DID{c.agent.DID}
	}
	return l.deps.CheckBlocked(ctx, s)
}

// checkBlocked refuses a handle that an operator blocked, or the DID of a key that it shows.
func (l *Link) checkBlocked(ctx context.Context, handle string, dids ...federation.DID) error {
	return l.deps.CheckBlocked(ctx, federation.Source{Network: network, Participants: []string{handle}, DIDs: dids})
}
