package airc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
)

// activeKey returns the active key of an agent that has these bytes, the zero one where
// none has.
func activeKey(agent agents.Agent, public ed25519.PublicKey, now time.Time) agents.Key {
	for _, key := range agent.Keys {
		if key.Public.Equal(public) && key.Status(now) == agents.KeyStatusActive {
			return key
		}
	}
	return agents.Key{}
}

// readmit issues new tokens to an agent that proved its active key for this registry. It also marks
// the key as proved, and ends the sessions begun without such a proof.
//
// spec: airc-shapes "Requests", "Sessions and proofs"
func (l *Link) readmit(c *call, agent agents.Agent, key agents.Key, now time.Time) (answer, error) {
	agent, err := l.prove(c.Context(), agent, key, now)
	if err != nil {
		return answer{}, err
	}
	if err := l.endUnbound(c.Context(), agent, "", now); err != nil {
		return answer{}, err
	}
	session, err := l.begin(c.Context(), newSession(c, agent.Handle, federation.BeganBound, key, now))
	if err != nil {
		return answer{}, err
	}
	pair, err := l.tokensOf(session, now)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: l.registered(agent, key.ID, pair)}, nil
}

// prove gives an agent the did:key of a key that it proved for its handle, and returns the
// agent as it is after. A DID that another agent has stays that one's, and a key that was
// revoked for its DID proves nothing.
//
// spec: airc-shapes "Who is who"
func (l *Link) prove(ctx context.Context, agent agents.Agent, key agents.Key, now time.Time) (agents.Agent, error) {
	if key.Proved() {
		return agent, nil
	}
	did := identity.KeyDID(key.Public)
	_, err := l.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil: // no write for each message of two agents with one key
		return agent, nil
	case !errors.Is(err, federation.ErrNotFound):
		return agent, fmt.Errorf("look up agent: %w", err)
	}
	if revoked, err := l.deps.Keys.Revoked(ctx, did, federation.KeyID(key.Public), now); err != nil || revoked {
		return agent, err
	}
	after, err := l.deps.Record.ProveKey(ctx, agent.Handle, key.ID, did, now)
	if err != nil {
		return agent, fmt.Errorf("note that %s proved %s: %w", agent.Handle, key.ID, err)
	}
	return after, nil
}

// checkRevoked refuses a key that was revoked for its own did:key: it proves nothing.
func (l *Link) checkRevoked(ctx context.Context, public ed25519.PublicKey, now time.Time) error {
	revoked, err := l.deps.Keys.Revoked(ctx, identity.KeyDID(public), federation.KeyID(public), now)
	if err != nil {
		return fmt.Errorf("look up the history of a key: %w", err)
	}
	if revoked {
		return refuse(codeKeyRevoked, "this key was revoked")
	}
	return nil
}
