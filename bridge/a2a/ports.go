package a2a

import (
	"context"
	"crypto/ed25519"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Agents knows the agents that take tasks here. Its methods block on the record and return its
// errors.
type Agents interface {
	// AgentOf returns the agent that registered with a DID, or [federation.ErrNotFound].
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
	// Here reports whether the mailbox of a DID is at this home.
	Here(ctx context.Context, did federation.DID) (bool, error)
}

// Record reads the messages that made tasks, and notes which steps a client has seen. Its methods
// block on the record and return its errors.
type Record interface {
	// Evidence returns what a gateway serves under a digest, or [federation.ErrNotFound].
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// Read ends the waiting of steps in the inbox of a DID. A step that does not wait there is
	// no error.
	Read(ctx context.Context, of federation.DID, steps []federation.EventID, now time.Time) error
}

// Webhooks keeps the webhooks that follow handoffs. Its methods block on the record and return
// its errors.
type Webhooks interface {
	// Followers returns the webhooks of a DID that follow a handoff, by ID.
	Followers(ctx context.Context, of federation.DID, id federation.HandoffID) ([]federation.Webhook, error)
	// RemoveWebhook deletes a webhook and its deliveries, or returns [federation.ErrNotFound].
	RemoveWebhook(ctx context.Context, id federation.WebhookID) error
}

// PublicKeys returns the keys with which signatures of the home verify at a time, the one that
// signs first. It does not block.
type PublicKeys func(now time.Time) []ed25519.PublicKey
