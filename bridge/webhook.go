package bridge

import (
	"context"
	"errors"
	"time"

	"baton/federation"
)

// WebhooksTopic is the topic of what is owed to hooks.
const WebhooksTopic = "hooks"

// ErrAddress is returned by [Webhooks.Register] for an address that nothing is posted to.
var ErrAddress = errors.New("nothing is posted to this address")

// Hooks lets a network's people have what reaches them posted to an address of theirs.
type Hooks interface {
	// Check returns nil for an address that Register would take now, and otherwise its
	// error.
	Check(ctx context.Context, address string) error
	// Register keeps a hook of a DID, or of the agent with a handle. Its error wraps
	// [ErrAddress], [federation.ErrTooManyWebhooks], [federation.ErrTaken] where the DID has
	// one with that address, or a [*federation.UnavailableError] where nobody can say now
	// whether the address is good.
	Register(ctx context.Context, of federation.DID, agent, address string, now time.Time) (Registered, error)
	// Enable has a hook called again that was disabled, once its address is good. Its error
	// is that of Check, or wraps [federation.ErrNotFound] for a hook that is gone.
	Enable(ctx context.Context, h federation.Webhook) error
	// PublicKey returns the public key of a hook, as its owner was told it.
	PublicKey(id federation.WebhookID) (string, error)
}

// Registered is a hook that was just made, with what its owner is told once.
type Registered struct {
	federation.Webhook

	Secret    string // "whsec_": what is posted is signed with it
	PublicKey string // "whpk_": of the other signature, for who would keep no secret
}
