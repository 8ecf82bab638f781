package participant

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Contact is what the caller decided about a sender of messages.
type Contact struct {
	DID   federation.DID          `json:"did,omitempty"` // "" for a sender of an AIRC registry that proved none
	Name  string                  `json:"name"`
	State federation.ContactState `json:"state"`
	Since time.Time               `json:"since"`
}

// ContactPage is a list of contacts.
type ContactPage struct {
	Items []Contact `json:"items"`
	Next  string    `json:"next_cursor"` // "" after the last page
}

// Contacts returns up to limit senders that wrote to the caller, or that it allowed or blocked.
func (a *Access) Contacts(ctx context.Context, who Caller, after string, limit int) (ContactPage, error) {
	did, err := who.Person()
	if err != nil || a.deps.Messages == nil {
		return ContactPage{Items: []Contact{}}, err
	}
	found, next, err := a.deps.Messages.Contacts(ctx, did, after, limit)
	page := ContactPage{Items: make([]Contact, 0, len(found)), Next: next}
	for _, c := range found {
		page.Items = append(page.Items, a.contact(ctx, c))
	}
	return page, err
}

// contact returns a contact with its name.
func (a *Access) contact(ctx context.Context, c federation.Contact) Contact {
	if c.Sender != "" {
		c.Name = cmp.Or(c.Name, a.Name(ctx, c.Sender))
	}
	return Contact{DID: c.Sender, Name: c.Name, State: c.State, Since: c.Since}
}

// Decide notes whether the caller takes messages of a sender: a DID, the handle of an agent, or
// NICK@LINK. The decision holds on every network.
func (a *Access) Decide(ctx context.Context, who Caller, sender string, state federation.ContactState) (Contact, error) {
	did, err := who.Person()
	if err != nil {
		return Contact{}, err
	}
	if state != federation.ContactAllowed && state != federation.ContactBlocked {
		return Contact{}, bridge.UsageProblem("state: want " + string(federation.ContactAllowed) + " or " + string(federation.ContactBlocked))
	}
	if a.deps.Messages == nil {
		return Contact{}, errUnreached(sender)
	}
	if who.Bound {
		if err := a.Builder().CheckVouched(ctx, did); err != nil {
			return Contact{}, err
		}
	}
	to, err := a.recipient(ctx, sender)
	switch {
	case err != nil:
		return Contact{}, err
	case to.DID == did:
		return Contact{}, bridge.UsageProblem("a participant decides about others")
	}
	now := time.Now()
	err = a.deps.Messages.Decide(ctx, did, to.DID, state == federation.ContactAllowed)
	if errors.Is(err, federation.ErrTooManyContacts) {
		err = Conflict("the caller has decided about as many senders as it may: " + strconv.Itoa(federation.MaxContacts))
	}
	return a.contact(ctx, federation.Contact{Sender: to.DID, State: state, Since: now}), err
}

// Decide is [Access.Decide].
func (a Account) Decide(ctx context.Context, sender string, state federation.ContactState) (Contact, error) {
	return a.Access.Decide(ctx, a.Caller, sender, state)
}

// Decide is [Account.Decide].
func (r Remote) Decide(ctx context.Context, sender string, state federation.ContactState) (Contact, error) {
	return invoke[Contact](ctx, r, "decide", decideCall{sender, state})
}
