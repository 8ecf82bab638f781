package participant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

// Contact is the caller's decision about a sender of messages.
type Contact struct {
	DID   federation.DID          `json:"did,omitempty"` // "" for an AIRC sender without a proven DID
	Name  string                  `json:"name"`
	State federation.ContactState `json:"state"`
	Since time.Time               `json:"since"`
}

// ContactPage is a list of contacts.
type ContactPage struct {
	Items []Contact `json:"items"`
	Next  string    `json:"next_cursor"`
}

// Contacts returns up to limit senders that wrote to the caller, or were allowed or blocked.
func (a *Service) Contacts(ctx context.Context, who Caller, after string, limit int) (ContactPage, error) {
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

func (a *Service) contact(ctx context.Context, c federation.Contact) Contact {
	if c.Sender != "" {
		c.Name = cmp.Or(c.Name, a.Name(ctx, c.Sender))
	}
	return Contact{DID: c.Sender, Name: c.Name, State: c.State, Since: c.Since}
}

// Decide records whether the caller accepts messages of a sender: a DID, or a name as in an offer. The
// decision applies to every network.
func (a *Service) Decide(ctx context.Context, who Caller, sender string, state federation.ContactState) (Contact, error) {
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
	to, _, err := a.Recipient(ctx, sender)
	switch {
	case err != nil:
		return Contact{}, err
	case to.DID == did:
		return Contact{}, bridge.UsageProblem("a participant decides about others")
	}
	now := time.Now()
	err = a.deps.Messages.Decide(ctx, did, to.DID, state == federation.ContactAllowed)
	if errors.Is(err, federation.ErrTooManyContacts) {
		err = Conflict("the caller has reached the maximum number of decisions about senders: " + strconv.Itoa(federation.MaxContacts))
	}
	return a.contact(ctx, federation.Contact{Sender: to.DID, State: state, Since: now}), err
}

// Decide is [Service.Decide].
func (a Account) Decide(ctx context.Context, sender string, state federation.ContactState) (Contact, error) {
	return a.Access.Decide(ctx, a.Caller, sender, state)
}

// Decide is [Account.Decide].
func (r Remote) Decide(ctx context.Context, sender string, state federation.ContactState) (Contact, error) {
	return invoke[Contact](ctx, r, "decide", decideCall{sender, state})
}

// namesOf returns one nameless Person for a known DID without a name.
func (a *Service) namesOf(ctx context.Context, did federation.DID) ([]Person, error) {
	caps, err := a.deps.Record.Declared(ctx, did)
	if err != nil {
		return nil, fmt.Errorf("look up skills of %s: %w", did, err)
	}
	if caps == nil {
		caps = []string{}
	}
	var found []Person
	add := func(b federation.Binding) {
		known := func(p Person) bool { return p.Network == b.Link && p.Name == b.Name }
		if !slices.ContainsFunc(found, known) {
			found = append(found, Person{DID: did, Network: b.Link, Name: b.Name, Online: a.online(ctx, b), Caps: caps})
		}
	}
	agent, err := a.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil:
		add(federation.Binding{DID: did, Network: agents.Link, Link: agents.Link, Name: agent.Handle})
	case !errors.Is(err, federation.ErrNotFound):
		return nil, fmt.Errorf("look up agent: %w", err)
	}
	bound, err := a.deps.Bindings.Of(ctx, did)
	if err != nil {
		return nil, err
	}
	for _, b := range bound {
		add(federation.Binding{DID: did, Network: b.Network, Link: b.Network, Name: b.Name})
	}
	seen, err := a.deps.Bindings.Seen(ctx, did)
	switch {
	case err == nil:
		add(federation.Binding{DID: did, Network: seen.Network, Link: cmp.Or(seen.Link, seen.Network), Name: seen.Name, Key: seen.Key})
	case !errors.Is(err, federation.ErrNotFound):
		return nil, err
	}
	declaration, err := a.deps.Record.Declaration(ctx, did)
	if err != nil {
		return nil, err
	}
	if declaration.Name != "" {
		add(federation.Binding{DID: did, Network: agentsNetwork, Link: agentsNetwork, Name: declaration.Name})
	}
	if len(found) == 0 && len(caps) > 0 {
		found = append(found, Person{DID: did, Name: a.Name(ctx, did), Caps: caps})
	}
	return found, nil
}

func (a *Service) online(ctx context.Context, b federation.Binding) bool {
	for _, s := range a.deps.Venues.Statuses() {
		if placer, ok := s.Link.(bridge.ChannelLink); ok && s.Link.Name() == b.Link {
			return placer.Online(ctx, b)
		}
	}
	return false
}

// visible allows every agent to see open offers, because any agent may declare their capabilities and claim
// them.
func (a *Service) visible(ctx context.Context, who Caller, v federation.View) (bool, error) {
	switch {
	case who.Operator:
		return true, nil
	case who.DID == "":
		return false, nil
	case isOpen(v):
		return true, nil
	}
	for _, party := range v.Others("") {
		if same, err := a.deps.Gateway.Same(ctx, who.DID, party); same || err != nil {
			return same, err
		}
	}
	return !federation.Private(v.Venue) && a.deps.Venues.Present(ctx, v.Venue, who.DID), nil
}

// Find returns a visible handoff. It refuses a hidden handoff like a missing one.
func (a *Service) Find(ctx context.Context, who Caller, text string) (federation.View, error) {
	return a.find(ctx, who, text, func(v federation.View) federation.View { return v })
}

// findFor also finds a handoff for a late claim if it was visible while open, because its home names the
// winner.
func (a *Service) findFor(ctx context.Context, who Caller, text string, verb federation.Verb) (federation.View, error) {
	return a.find(ctx, who, text, func(v federation.View) federation.View {
		if verb == federation.Claim && v.Offeree == "" {
			v.State = federation.Open
		}
		return v
	})
}

// find applies the rules of visibility to the state returned by shown.
func (a *Service) find(ctx context.Context, who Caller, text string, shown func(federation.View) federation.View) (federation.View, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.View{}, bridge.UsageProblem("id: " + err.Error())
	}
	view, err := a.deps.Gateway.View(ctx, id)
	if err != nil {
		return federation.View{}, fmt.Errorf("read handoff %s: %w", id, err)
	}
	if !view.Exists() {
		return federation.View{}, errNone()
	}
	visible, err := a.visible(ctx, who, shown(view))
	if err == nil && !visible {
		err = errNone()
	}
	return view, err
}
