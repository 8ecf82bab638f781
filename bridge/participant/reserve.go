package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// Unsigned is a step with an Idempotency-Key before its author signs it.
type Unsigned struct {
	Key   string          `json:"key"`
	Offer *Offer          `json:"offer,omitempty"` // nil for a step in a handoff
	ID    string          `json:"id,omitempty"`    // of the handoff of the step
	Verb  federation.Verb `json:"verb,omitempty"`
	Step  StepRequest     `json:"step,omitzero"`
	// Stale is an ID that the home refused as too old or too new; zero for none.
	Stale federation.EventID `json:"stale,omitzero"`
}

// Reservation is the place of a step that has an Idempotency-Key.
type Reservation struct {
	Event federation.EventID `json:"event_id"`        // the ID to sign the step under
	Filed *Filed             `json:"filed,omitempty"` // nil for a step that is not on disk
}

// Reserve returns the ID under which a caller signs a step. The same step with the same key has the
// same ID for a day, so that it is filed once however often the caller signs it, and another step
// with that key is a [*bridge.ProblemError] with [CodeOtherRequest]. A refused step keeps its ID and
// is judged again.
func (a *Access) Reserve(ctx context.Context, who Caller, u Unsigned) (Reservation, error) {
	q, err := a.askUnsigned(ctx, who, u)
	if err != nil {
		return Reservation{}, err
	}
	kept, fresh, err := a.reserve(ctx, q, u.Key, time.Now())
	if err != nil {
		return Reservation{}, err
	}
	if kept.Status != 0 {
		filed, err := replayed(kept)
		return Reservation{Event: kept.Event, Filed: &filed}, err
	}
	filed, err := a.onFile(ctx, kept.Event)
	if err == nil && filed == nil && !u.Stale.IsZero() && kept.Event == u.Stale {
		kept.Event = fresh
		err = a.deps.Answers.Answered(ctx, kept)
	}
	return Reservation{Event: kept.Event, Filed: filed}, err
}

func (a *Access) askUnsigned(ctx context.Context, who Caller, u Unsigned) (ask, error) {
	if u.Offer != nil {
		return askOffer(who, *u.Offer)
	}
	return a.askStep(ctx, who, u.ID, u.Verb, u.Step)
}

// onFile returns the answer to a step that is on disk, nil for one that is not.
func (a *Access) onFile(ctx context.Context, id federation.EventID) (*Filed, error) {
	handoff, err := a.deps.Handoffs.Reference(ctx, id.String())
	var at federation.Entry
	if err == nil {
		at, err = a.deps.Handoffs.Step(ctx, handoff, id)
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, fmt.Errorf("look up step: %w", err)
	}
	return &Filed{
		ID: handoff.String(), EventID: id.String(), Verb: string(at.Event.Verb), State: string(at.State), Lost: []string{}, Replayed: true,
	}, nil
}
