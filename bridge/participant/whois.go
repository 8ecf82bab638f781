package participant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
)

// Person is one name of a participant.
type Person struct {
	DID     federation.DID `json:"did"`
	Network string         `json:"network"` // the link that the name is of; "" for a DID without a name
	Name    string         `json:"name"`
	Online  bool           `json:"online"` // connected to that link now
	Caps    []string       `json:"caps"`   // that the DID declared; never nil
}

// Whois returns the names of the participant that a text names: a DID, the handle of an agent
// with or without the domain of this gateway, NAME@LINK, or HANDLE@DOMAIN of a registry that the
// operator named. None found is an empty list.
func (a *Access) Whois(ctx context.Context, who string) ([]Person, error) {
	who = strings.TrimPrefix(who, "@")
	if strings.HasPrefix(who, "did:") {
		did, err := federation.ParseDID(who)
		if err != nil {
			return nil, bridge.UsageProblem("who: " + err.Error())
		}
		if did, err = a.deps.Gateway.Owner(ctx, did); err != nil {
			return nil, err
		}
		return a.namesOf(ctx, did)
	}
	if who == "" {
		return nil, bridge.UsageProblem("who: want a DID, a handle, NICK@LINK or HANDLE@DOMAIN")
	}
	did, err := a.didOf(ctx, who)
	if errors.Is(err, federation.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", who, err)
	}
	return a.namesOf(ctx, did)
}

// didOf returns the DID behind a handle, NAME@LINK or HANDLE@DOMAIN, or [federation.ErrNotFound].
func (a *Access) didOf(ctx context.Context, who string) (federation.DID, error) {
	at := strings.LastIndexByte(who, '@')
	if at < 0 {
		return a.deps.Bindings.Participant(ctx, who)
	}
	name, of := who[:at], who[at+1:]
	bound, err := a.deps.Bindings.Bound(ctx, of, name)
	if err == nil {
		return bound.DID, nil
	}
	if !errors.Is(err, federation.ErrNotFound) {
		return "", err
	}
	for _, s := range a.deps.Venues.Statuses() {
		if registrar, ok := s.Link.(bridge.Registrar); ok && strings.EqualFold(registrar.Domain(), of) {
			return a.deps.Bindings.Participant(ctx, name)
		}
	}
	if a.deps.Messages == nil {
		return "", federation.ErrNotFound
	}
	return a.deps.Messages.Introduce(ctx, who)
}

// namesOf returns a person for each name of a DID, and one without a name where it has none but
// is known.
func (a *Access) namesOf(ctx context.Context, did federation.DID) ([]Person, error) {
	caps, err := a.deps.Skills.Declared(ctx, did)
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
	agent, err := a.deps.Steps.AgentOf(ctx, did)
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
	if len(found) == 0 && len(caps) > 0 {
		found = append(found, Person{DID: did, Name: a.Name(ctx, did), Caps: caps})
	}
	return found, nil
}

// online reports whether the user behind a name is connected to its link now.
func (a *Access) online(ctx context.Context, b federation.Binding) bool {
	for _, s := range a.deps.Venues.Statuses() {
		if placer, ok := s.Link.(bridge.Placer); ok && s.Link.Name() == b.Link {
			return placer.Online(ctx, b)
		}
	}
	return false
}
