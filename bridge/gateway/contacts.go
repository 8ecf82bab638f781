package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// introduce refuses a message to a person that blocked its sender. The first message of a sender
// is marked: the person is told with it how to allow and to block the sender.
func (g *Gateway) introduce(ctx context.Context, ev *federation.Event) (federation.Contact, error) {
	c, err := g.contact(ctx, ev.To, ev.For)
	switch {
	case err != nil:
		return federation.Contact{}, err
	case c.State == federation.ContactBlocked:
		return federation.Contact{}, federation.Refuse(*ev, federation.PolicyDenied, "the recipient takes no messages from you")
	case c.State == federation.ContactUnknown:
		ev.Fields = map[string]string{federation.Introduces: "1"}
		c.State = federation.ContactIntroduced
		return c, nil
	}
	return federation.Contact{}, nil
}

// contact returns what a person decided about a sender. Each participant counts under its first
// DID, so that a block of an agent holds for all DIDs of the agent.
func (g *Gateway) contact(ctx context.Context, person, sender federation.DID) (c federation.Contact, err error) {
	if c.Person, err = g.firstDID(ctx, person); err != nil {
		return c, err
	}
	if c.Sender, err = g.firstDID(ctx, sender); err != nil {
		return c, err
	}
	c.State, err = g.deps.Messages.Contact(ctx, c.Person, c.Sender)
	return c, err
}

// firstDID returns the first DID of the participant that has a DID.
func (g *Gateway) firstDID(ctx context.Context, did federation.DID) (federation.DID, error) {
	known, err := g.deps.Participants.WithDID(ctx, did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return did, fmt.Errorf("look up %s: %w", did, err)
	}
	if err == nil && len(known.DIDs) > 0 {
		return known.DIDs[0], nil
	}
	return did, nil
}

// answerContact notes that a sender takes messages of the DID that it writes to, unless it blocked
// that DID.
func (g *Gateway) answerContact(ctx context.Context, ev federation.Event, now time.Time) error {
	c, err := g.contact(ctx, ev.For, ev.To)
	if err != nil || c.State == federation.ContactBlocked || c.State == federation.ContactAllowed {
		return err
	}
	c.State = federation.ContactAllowed
	return g.deps.Messages.SetContact(ctx, c, now)
}

// Decide implements [bridge.Messages].
func (g *Gateway) Decide(ctx context.Context, person, sender federation.DID, allow bool) error {
	c, err := g.contact(ctx, person, sender)
	if err != nil {
		return err
	}
	if c.State = federation.ContactBlocked; allow {
		c.State = federation.ContactAllowed
	}
	return g.deps.Messages.SetContact(ctx, c, time.Now())
}
