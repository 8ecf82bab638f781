package bridge

import (
	"context"
	"errors"
	"time"

	"baton/federation"
)

// ErrAddress is returned by [Webhooks.Register] for an address that the gateway does not post
// to.
var ErrAddress = errors.New("nothing is posted to this address")

// ErrBroken is wrapped by an error of [Poster.Posts] for a push that can never be made.
var ErrBroken = errors.New("this push can never be made")

// Webhooks registers the webhooks of participants: addresses to which the gateway posts what
// reaches them.
type Webhooks interface {
	// Check returns nil for an address that Register accepts now, and otherwise the error of
	// Register. It blocks on the network.
	Check(ctx context.Context, address string) error
	// Register stores a webhook of a DID, or of the participant with a handle, made in a session:
	// see [federation.Webhook.In]. Its error wraps [ErrAddress], [federation.ErrTooManyWebhooks] or
	// [federation.ErrTaken] (the DID already has a webhook with that address). It is a
	// [*federation.UnavailableError] if the address cannot be checked now. Register blocks on the
	// network and the record.
	Register(ctx context.Context, h federation.Webhook, now time.Time) (Registered, error)
	// Follow keeps a webhook that follows a handoff, with the owner, handoff, label, address
	// and sealed content of h. Its error is as that of Register; a handoff has as many
	// followers of a DID as a DID has other webhooks.
	Follow(ctx context.Context, h federation.Webhook, now time.Time) (federation.Webhook, error)
	// Enable enables a disabled webhook with a valid address, for the session in h. Its error is
	// that of Check, or wraps [federation.ErrNotFound] for a removed webhook.
	Enable(ctx context.Context, h federation.Webhook) error
	// PublicKey returns the public key of a webhook, as its owner was told it. It does not
	// block.
	PublicKey(id federation.WebhookID) (string, error)
}

// Registered is a new webhook, with what its owner is told once.
type Registered struct {
	federation.Webhook

	Secret    string // "whsec_": the key of the signature on each post
	PublicKey string // "whpk_": the key of the other signature, for receivers that keep no secret
}
