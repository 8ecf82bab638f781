package participant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

const agentsNetwork = "agents"

// Agent is a DID with its name and its declaration.
type Agent struct {
	DID         federation.DID `json:"did"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Caps        []string       `json:"caps"` // never nil
}

// AgentUpdate is the declaration of an agent about itself. Absent members do not change.
type AgentUpdate struct {
	// Capabilities of the agent. Open offers may require capabilities.
	Caps        []string `json:"caps,omitzero" schema:"Capability" maxItems:"64"`
	Description *string  `json:"description,omitzero" maxLength:"1024"`
	// Unique at this gateway; participants of all networks can find the agent by it. Empty for
	// none. An unused name becomes free after 30 days.
	Name *string `json:"name,omitzero" pattern:"^([a-z0-9][a-z0-9_-]{2,31})?$"`
}

// Agent returns the declaration of a DID, or of its owner if the gateway keeps that key.
func (a *Service) Agent(ctx context.Context, did federation.DID) (Agent, error) {
	did, err := a.deps.Gateway.Owner(ctx, did)
	if err != nil {
		return Agent{}, err
	}
	declaration, err := a.deps.Record.Declaration(ctx, did)
	if err != nil {
		return Agent{}, err
	}
	caps, err := a.deps.Record.Declared(ctx, did)
	if caps == nil {
		caps = []string{}
	}
	return Agent{DID: did, Name: a.Name(ctx, did), Description: declaration.Description, Caps: caps}, err
}

// Declare changes the declaration of a DID. Only the DID itself may do so.
func (a *Service) Declare(ctx context.Context, who Caller, did federation.DID, u AgentUpdate, now time.Time) (Agent, error) {
	own, err := who.Person()
	if err != nil {
		return Agent{}, err
	}
	if did != own {
		return Agent{}, Forbidden("only " + string(own) + " declares what it can do with this token")
	}
	d, err := a.deps.Record.Declaration(ctx, own)
	if err != nil {
		return Agent{}, err
	}
	before := d.Name
	d.DID, d.At = own, now
	if u.Caps != nil {
		d.Caps = slices.Compact(slices.Sorted(slices.Values(u.Caps)))
	}
	if u.Description != nil {
		d.Description = *u.Description
	}
	if u.Name != nil {
		d.Name = *u.Name
		if err := a.checkName(ctx, own, d.Name); err != nil {
			return Agent{}, err
		}
	}
	err = a.deps.Record.Declare(ctx, d)
	if errors.Is(err, federation.ErrTaken) {
		err = Conflict("the name " + d.Name + " is taken; choose another one")
	}
	if err != nil {
		return Agent{}, err
	}
	if d.Name != before && a.deps.Presence != nil {
		a.deps.Presence.Changed(ctx, bridge.PresenceChange{Link: a.network, DID: own, Now: own, Name: a.Name(ctx, own)})
	}
	return a.Agent(ctx, own)
}

func (a *Service) checkName(ctx context.Context, did federation.DID, name string) error {
	if name == "" {
		return nil
	}
	if !agents.ReadHere(name) || name == "baton" {
		return bridge.UsageProblem("name: " + name + " is reserved")
	}
	agent, err := a.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil && agent.Handle != name:
		return Conflict("this agent has the name " + agent.Handle + ", its handle at the registry")
	case err == nil:
		return nil
	case !errors.Is(err, federation.ErrNotFound):
		return fmt.Errorf("look up agent: %w", err)
	}
	return nil
}

// Name returns the display name of a DID.
func (a *Service) Name(ctx context.Context, did federation.DID) string {
	return a.deps.Gateway.Name(ctx, did)
}

// Resolved is the participant with a name.
type Resolved struct {
	DID     federation.DID `json:"did"`
	Name    string         `json:"name"`
	Network string         `json:"network"` // the link of the name, "airc", or "agents" for a declared name
}

// NameError is the error for an unknown or ambiguous name.
type NameError struct {
	Problem    bridge.ProblemError
	Candidates []Resolved // similar ones if unknown; never nil
}

// Error implements error.
func (e *NameError) Error() string { return e.Problem.Error() }

// Unwrap returns the problem.
func (e *NameError) Unwrap() error { return &e.Problem }

// CandidatesOf returns the candidates of a [NameError], or nil for any other error.
func CandidatesOf(err error) []Resolved {
	if name, ok := errors.AsType[*NameError](err); ok {
		return name.Candidates
	}
	return nil
}

type match struct {
	Resolved

	place federation.ChannelRef // of a user without a DID
}

// Recipient returns the participant named by text (see [MessageRequest]), or a [*NameError]. Resolved is
// nil for a DID.
func (a *Service) Recipient(ctx context.Context, text string) (bridge.Recipient, *Resolved, error) {
	if strings.HasPrefix(text, "did:") {
		did, err := federation.ParseDID(text)
		if err != nil {
			err = bridge.UsageProblem("to: " + err.Error())
		}
		return bridge.Recipient{DID: did}, nil, err
	}
	name := strings.TrimPrefix(text, "@")
	found, err := a.matches(ctx, name)
	if err != nil {
		return bridge.Recipient{}, nil, err
	}
	switch len(found) {
	case 1:
		return bridge.Recipient{DID: found[0].DID, Place: found[0].place}, &found[0].Resolved, nil
	case 0:
		near, err := a.similar(ctx, name)
		if err != nil {
			return bridge.Recipient{}, nil, err
		}
		return bridge.Recipient{}, nil, &NameError{bridge.ProblemError{
			Status: http.StatusNotFound, Code: bridge.CodeUnknownName, Detail: "no participant called " + name + " is known here" + listed("; similar: ", near),
		}, near}
	}
	candidates := make([]Resolved, len(found))
	for i, m := range found {
		candidates[i] = m.Resolved
	}
	slices.SortFunc(candidates, func(x, y Resolved) int { return strings.Compare(x.Network, y.Network) })
	return bridge.Recipient{}, nil, &NameError{bridge.ProblemError{
		Status: http.StatusConflict, Code: bridge.CodeAmbiguousName, Detail: name + " stands for several participants; name one by its DID" + listed(": ", candidates),
	}, candidates}
}

// Resolve returns the DID of an offer's recipient. Resolved is nil if text is a DID.
func (a *Service) Resolve(ctx context.Context, text string) (federation.DID, *Resolved, error) {
	if strings.HasPrefix(text, "did:") {
		did, err := stepbuilder.Recipient(text)
		return did, nil, err
	}
	to, resolved, err := a.Recipient(ctx, text)
	if err == nil && to.Place.Link != "" && to.DID == a.deps.Messages.Guest(to.Place.Link, to.Place.Venue) {
		err = &federation.RefusalError{Code: federation.InvalidTarget, Detail: "to: " + text + " has no DID, so it could not answer; write a message to it"}
	}
	return to.DID, resolved, err
}

// listed returns "" for no names.
func listed(text string, names []Resolved) string {
	for i, n := range names {
		if i > 0 {
			text += ", "
		}
		text += n.Name + "@" + n.Network
	}
	if len(names) == 0 {
		return ""
	}
	return text
}

func (a *Service) matches(ctx context.Context, name string) ([]match, error) {
	if name == "" {
		return nil, nil
	}
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		m, err := a.matchAt(ctx, name, name[:at], name[at+1:])
		if errors.Is(err, federation.ErrNotFound) {
			return nil, nil
		}
		return []match{m}, err
	}
	var found []match
	add := func(m match, err error) error {
		if errors.Is(err, federation.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, other := range found {
			if same, err := a.deps.Gateway.Same(ctx, m.DID, other.DID); same || err != nil {
				return err
			}
		}
		found = append(found, m)
		return nil
	}
	if err := add(a.matchAgent(ctx, name)); err != nil {
		return nil, err
	}
	for _, s := range a.deps.Venues.Statuses() {
		link := s.Link.Name()
		if link == agents.Link {
			continue
		}
		bound, err := a.deps.Bindings.Bound(ctx, link, name)
		if err := add(match{Resolved: Resolved{DID: bound.DID, Name: name, Network: link}}, err); err != nil {
			return nil, err
		}
		if err := add(a.matchNick(ctx, name, link, false)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (a *Service) matchAgent(ctx context.Context, name string) (match, error) {
	did, err := a.deps.Bindings.Participant(ctx, name)
	if err != nil {
		return match{}, err
	}
	m := match{Resolved: Resolved{DID: did, Name: name, Network: agentsNetwork}}
	if _, err := a.deps.Record.Agent(ctx, name); err == nil {
		m.Network = agents.Link
	}
	return m, nil
}

// matchNick requires the user to be online or, if known is true, recorded.
func (a *Service) matchNick(ctx context.Context, nick, link string, known bool) (match, error) {
	if a.deps.Messages == nil {
		return match{}, federation.ErrNotFound
	}
	user, err := a.deps.Messages.Addressee(ctx, nick+"@"+link)
	if err != nil {
		return match{}, err
	}
	m := match{Resolved{DID: user.DID, Name: nick, Network: link}, user.Place}
	if user.DID != a.deps.Messages.Guest(link, nick) {
		return m, nil // an account implies that the user is online
	}
	for _, s := range a.deps.Venues.Statuses() {
		if messenger, ok := s.Link.(bridge.Messenger); ok && s.Link.Name() == link {
			if _, here := messenger.Here(ctx, user); here {
				return m, nil
			}
		}
	}
	if known {
		if known, err = a.deps.Seen(ctx, user.DID); known || err != nil {
			return m, err
		}
	}
	return match{}, federation.ErrNotFound
}

func (a *Service) matchAt(ctx context.Context, address, name, of string) (match, error) {
	bound, err := a.deps.Bindings.Bound(ctx, of, name)
	if errors.Is(err, federation.ErrNotFound) {
		var m match
		if m, err = a.matchNick(ctx, name, of, true); !errors.Is(err, federation.ErrNotFound) {
			return m, err
		}
		for _, s := range a.deps.Venues.Statuses() {
			if registrar, ok := s.Link.(bridge.Registrar); ok && strings.EqualFold(registrar.Domain(), of) {
				return a.matchAgent(ctx, name)
			}
		}
		if of == agents.Link || of == agentsNetwork || of == string(a.deps.Home) {
			return a.matchAgent(ctx, name)
		}
		if a.deps.Messages != nil {
			bound.DID, err = a.deps.Messages.Introduce(ctx, address)
		}
	}
	return match{Resolved: Resolved{DID: bound.DID, Name: name, Network: of}}, err
}

const (
	maxCompared  = 256
	maxDistance  = 2
	maxSimilar   = 5
	prefixLength = 1
)

// similar compares only names with the same first letter.
func (a *Service) similar(ctx context.Context, name string) ([]Resolved, error) {
	name, of, _ := strings.Cut(name, "@")
	prefix := name[:min(len(name), prefixLength)]
	found := []Resolved{}
	add := func(name string, did federation.DID, network string) {
		found = append(found, Resolved{DID: did, Name: name, Network: network})
	}
	declared, err := a.deps.Record.DeclaredNames(ctx, prefix, maxCompared)
	if err != nil {
		return nil, err
	}
	for _, d := range declared {
		add(d.Name, d.DID, agentsNetwork)
	}
	handles, err := a.deps.Record.Handles(ctx, prefix, maxCompared)
	if err != nil {
		return nil, err
	}
	for _, b := range handles {
		add(b.Name, b.DID, b.Network)
	}
	if of != "" { // without a link, matches has already searched all links
		for _, s := range a.deps.Venues.Statuses() {
			if m, err := a.matchNick(ctx, name, s.Link.Name(), false); err == nil {
				add(m.Name, m.DID, m.Network)
			}
		}
	}
	distance := func(r Resolved) int { return levenshtein.ComputeDistance(name, r.Name) }
	found = slices.DeleteFunc(found, func(r Resolved) bool { return distance(r) > maxDistance })
	slices.SortStableFunc(found, func(x, y Resolved) int { return cmp.Compare(distance(x), distance(y)) })
	return found[:min(len(found), maxSimilar)], nil
}

// Person is one name of a participant.
type Person struct {
	DID     federation.DID `json:"did"`
	Network string         `json:"network"` // the link of the name, or "agents" for a declared name; "" for a DID without a name
	Name    string         `json:"name"`
	Online  bool           `json:"online"` // connected to that link now
	Caps    []string       `json:"caps"`   // declared; never nil
}

// Whois returns the names of the participants denoted by a name as in [MessageRequest]. A handle may
// include the domain of this gateway. The list may be empty.
func (a *Service) Whois(ctx context.Context, who string) ([]Person, error) {
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
		return nil, bridge.UsageProblem("who: want a DID, a name, a handle, NICK@LINK or HANDLE@DOMAIN")
	}
	found, err := a.matches(ctx, who)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", who, err)
	}
	var people []Person
	for _, m := range found {
		names, err := a.namesOf(ctx, m.DID)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 { // an online user without a signed step
			names = []Person{{DID: m.DID, Network: m.Network, Name: m.Name, Online: true, Caps: []string{}}}
		}
		people = append(people, names...)
	}
	return people, nil
}
