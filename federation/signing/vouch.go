package signing

import (
	"context"
	"fmt"

	"baton/federation"
)

// Writer returns the members of a step as the fields of its dialect, and the members that do not fit.
type Writer func(ev federation.Event) (fields map[string]string, losses []federation.Loss)

// Referrer stores the inline context of a step and returns the step with a reference to it. It may
// block, and returns any other step unchanged.
type Referrer func(ctx context.Context, ev federation.Event) (federation.Event, error)

// Vouch returns a step that a gateway signs for its author, with a key that the gateway keeps for the
// author. The draft has an ID, the members, the dialect, the venue and the arrival, For if the key does
// not name the author, and evidence if the author wrote an original. A context that does not fit is stored first.
// The losses are the members that the signed document does not carry.
func Vouch(ctx context.Context, key federation.SigningKey, draft federation.Event, write Writer, refer Referrer) (federation.Event, []federation.Loss, error) {
	draft.From, draft.Provenance = key.DID, federation.Vouched
	return SealFitted(ctx, key, draft, write, refer)
}

// SealFitted writes the members of a step, and seals the step. It stores a context that does not fit,
// and returns the losses, as [Vouch] does.
func SealFitted(ctx context.Context, key federation.SigningKey, ev federation.Event, write Writer, refer Referrer) (federation.Event, []federation.Loss, error) {
	fields, losses := write(ev)
	unhashed := ev.ContextHash == "" && federation.CapabilityIn(ev.Context) != "" // of a context that may be stored here
	if federation.Loses(losses, "context") || unhashed {
		var err error
		if ev, err = refer(ctx, ev); err != nil {
			return ev, nil, fmt.Errorf("store context of %s: %w", ev.ID, err)
		}
		fields, losses = write(ev)
	}
	ev.Fields = fields
	ev, err := Seal(ctx, key, ev)
	return ev, losses, err
}
