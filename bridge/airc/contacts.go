package airc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
)

var _ bridge.Consenter = (*Link)(nil)

// Consents implements [bridge.Consenter]: the registry keeps the decisions of its agents, as other
// registries do, and the decisions of all participants about unverified senders.
func (l *Link) Consents(ctx context.Context, person, sender federation.DID) (bool, error) {
	c, err := l.contactOf(ctx, person, nil)
	if err != nil || c.agent != nil {
		return c.agent != nil, err
	}
	c, err = l.contactOf(ctx, sender, nil)
	return strings.HasPrefix(c.handle, agents.Unverified), err
}

// Decide implements [bridge.Consenter] as POST /consent.
func (l *Link) Decide(ctx context.Context, c federation.Contact, now time.Time) error {
	person, err := l.contactOf(ctx, c.Person, nil)
	if err != nil {
		return err
	}
	sender, err := l.contactOf(ctx, c.Sender, nil)
	if err != nil {
		return err
	}
	action := actionAccept
	if c.State == federation.ContactBlocked {
		action = actionBlock
	}
	edge, err := l.decide(ctx, action, sender, person.handle, now)
	if err != nil || person.agent == nil {
		return err
	}
	return l.shareDecision(ctx, action, edge, *person.agent, now)
}

// Answer implements [bridge.Consenter].
func (l *Link) Answer(ctx context.Context, person, to federation.DID, now time.Time) error {
	agent, err := l.contactOf(ctx, person, nil)
	if err != nil {
		return err
	}
	if strings.HasPrefix(agent.handle, agents.Unverified) {
		return nil // it takes no messages
	}
	other, err := l.contactOf(ctx, to, nil)
	if err != nil {
		return err
	}
	return l.befriend(ctx, other.handle, agent.handle, now)
}

// Contacts implements [bridge.Consenter].
func (l *Link) Contacts(ctx context.Context, person federation.DID, after string, limit int) ([]federation.Contact, string, error) {
	to, err := l.contactOf(ctx, person, nil)
	if err != nil {
		return nil, "", err
	}
	if to.agent == nil {
		after = max(after, agents.Unverified)
	}
	edges, err := l.deps.Record.Edges(ctx, to.handle, after, limit)
	if err != nil {
		return nil, "", err
	}
	if to.agent == nil { // the gateway keeps what it decided about others
		edges = slices.DeleteFunc(edges, func(edge agents.Consent) bool { return !strings.HasPrefix(edge.From, agents.Unverified) })
	}
	found := make([]federation.Contact, 0, len(edges))
	for _, edge := range edges {
		sender, err := l.find(ctx, edge.From)
		if err != nil && !errors.Is(err, federation.ErrNotFound) { // which has a name and no DID
			return nil, "", err
		}
		found = append(found, federation.Contact{Person: person, Sender: sender.did(), Name: edge.From, State: contactState(edge.State), Since: edge.Updated})
	}
	next := ""
	if n := len(edges); n > 0 && n == limit {
		next = edges[n-1].From
	}
	return found, next, nil
}

// contactState returns the state of an edge as other networks call it.
func contactState(s agents.ConsentState) federation.ContactState {
	switch s {
	case agents.ConsentAccepted:
		return federation.ContactAllowed
	case agents.ConsentBlocked:
		return federation.ContactBlocked
	case agents.ConsentPending, agents.ConsentNone:
	}
	return federation.ContactIntroduced
}
