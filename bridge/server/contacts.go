package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// introduce refuses a message to a participant that blocked its sender, and marks a sender's first
// message. A network with its own rules judges the messages to its agents itself.
func (g *Gateway) introduce(ctx context.Context, t *federation.Text) (federation.Contact, error) {
	own, err := g.consenter(ctx, t.To, t.Author)
	if own != nil || err != nil {
		return federation.Contact{}, err
	}
	c, err := g.contact(ctx, t.To, t.Author)
	switch {
	case err != nil:
		return federation.Contact{}, err
	case c.State == federation.ContactBlocked:
		return federation.Contact{}, t.Refuse(federation.PolicyDenied, "the recipient does not accept messages from you")
	case c.State == federation.ContactUnknown:
		setField(t, federation.Introduces, "1")
		c.State = federation.ContactIntroduced
		return c, nil
	}
	return federation.Contact{}, nil
}

// consenter returns the link that stores a participant's decisions about a sender, or nil for the
// gateway.
func (g *Gateway) consenter(ctx context.Context, did, sender federation.DID) (bridge.Consenter, error) { //nolint:ireturn // links are of many types
	for link := range able[bridge.Consenter](g.links) {
		keeps, err := link.Consents(ctx, did, sender)
		if err != nil {
			return nil, fmt.Errorf("look up who keeps the decisions of %s: %w", did, err)
		}
		if keeps {
			return link, nil
		}
	}
	return nil, nil //nolint:nilnil // the gateway keeps them
}

// Decisions are stored under the first DID of each participant, so that a block of an agent applies
// to all its DIDs.
func (g *Gateway) contact(ctx context.Context, person, sender federation.DID) (c federation.Contact, err error) {
	if c.Person, err = g.firstDID(ctx, person); err != nil {
		return c, err
	}
	if c.Sender, err = g.firstDID(ctx, sender); err != nil {
		return c, err
	}
	c.State, err = g.deps.Record.Contact(ctx, c.Person, c.Sender)
	return c, err
}

// For a DID with a key kept by the gateway, the participant is the owner of the key.
func (g *Gateway) firstDID(ctx context.Context, did federation.DID) (federation.DID, error) {
	did, err := g.Owner(ctx, did)
	if err != nil {
		return did, err
	}
	known, err := g.participants.WithDID(ctx, did)
	if len(known.DIDs) > 0 {
		did = known.DIDs[0]
	}
	return did, err
}

// answerContact records that a sender allows messages from the recipient of its message, unless it
// blocked that DID. A sender with too many contacts can still write, but the recipient is not
// added. The home of a remote sender records this itself.
func (g *Gateway) answerContact(ctx context.Context, t federation.Text, now time.Time) error {
	if t.Arrival.Home != "" {
		return nil
	}
	own, err := g.consenter(ctx, t.Author, t.To)
	if err != nil {
		return err
	}
	if own != nil {
		return own.Answer(ctx, t.Author, t.To, now)
	}
	c, err := g.contact(ctx, t.Author, t.To)
	if err != nil || c.State == federation.ContactBlocked || c.State == federation.ContactAllowed {
		return err
	}
	c.State = federation.ContactAllowed
	if err = g.deps.Record.SetContact(ctx, c, now); errors.Is(err, federation.ErrTooManyContacts) {
		return nil
	}
	return err
}

// Decide implements [bridge.Messages].
func (g *Gateway) Decide(ctx context.Context, person, sender federation.DID, allow bool) error {
	c := federation.Contact{Person: person, Sender: sender, State: federation.ContactBlocked}
	if allow {
		c.State = federation.ContactAllowed
	}
	own, err := g.consenter(ctx, person, sender)
	if err != nil {
		return err
	}
	if own != nil {
		return own.Decide(ctx, c, time.Now())
	}
	if c.Person, err = g.firstDID(ctx, person); err != nil {
		return err
	}
	if c.Sender, err = g.firstDID(ctx, sender); err != nil {
		return err
	}
	return g.deps.Record.SetContact(ctx, c, time.Now())
}

// Contacts implements [bridge.Messages].
func (g *Gateway) Contacts(ctx context.Context, person federation.DID, after string, limit int) ([]federation.Contact, string, error) {
	own, err := g.consenter(ctx, person, "")
	if err != nil {
		return nil, "", err
	}
	if own != nil {
		return own.Contacts(ctx, person, after, limit)
	}
	if person, err = g.firstDID(ctx, person); err != nil {
		return nil, "", err
	}
	var found []federation.Contact
	if after == "" || strings.HasPrefix(after, "did:") {
		found, err = g.deps.Record.ContactsOf(ctx, person, federation.DID(after), limit)
		if err != nil {
			return nil, "", err
		}
		if n := len(found); n > 0 && n == limit {
			return found, string(found[n-1].Sender), nil
		}
		after = ""
	}
	for link := range able[bridge.Consenter](g.links) { // after the decisions stored by the gateway
		more, next, err := link.Contacts(ctx, person, after, limit-len(found))
		if found = append(found, more...); err != nil || next != "" {
			return found, next, err
		}
	}
	return found, "", nil
}

// AllowHeld delivers a message from an unverified sender that is held for its recipient. It returns
// [federation.ErrNotFound] if the message is not held.
func (g *Gateway) AllowHeld(ctx context.Context, id int64) error {
	for registrar := range able[bridge.Registrar](g.links) {
		if err := registrar.AllowHeld(ctx, id, time.Now()); !errors.Is(err, federation.ErrNotFound) {
			return err
		}
	}
	return federation.ErrNotFound
}
