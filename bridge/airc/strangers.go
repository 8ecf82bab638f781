package airc

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Strangers limits DIDs that the record has not known for long. A context has the address
// of the client, see [bridge.WithSubnet].
type Strangers interface {
	// Admit returns a [*federation.StrangerError] for a DID that has to come later.
	Admit(ctx context.Context, did federation.DID, now time.Time) error
	// Meet notes that the record knows a DID from now on.
	Meet(ctx context.Context, did federation.DID, now time.Time) error
}

// addAgent files a new agent with its first session, unless the limit of new DIDs is reached. An
// agent of another registry gets no session. The agent is counted first: if filing fails, it still
// counts as new.
func (l *Link) addAgent(ctx context.Context, agent agents.Agent, first federation.Session, now time.Time) error {
	if err := l.deps.Strangers.Admit(ctx, agent.DID, now); err != nil {
		return err
	}
	if err := l.deps.Strangers.Meet(ctx, agent.DID, now); err != nil {
		return fmt.Errorf("meet %s: %w", agent.Handle, err)
	}
	if first.ID == "" {
		return l.deps.Record.AddAgent(ctx, agent)
	}
	return l.deps.Record.AddAgentSession(ctx, agent, first)
}
