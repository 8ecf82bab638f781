package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

const (
	lookupsPerMinute   = 30 // from one address
	foundLife          = 5 * time.Minute
	maxFound           = 1024 // cached identities, a few KiB each
	maxPresenceEntries = 500
	maxWordChars       = 64  // of a status, a kind or a time
	maxWorkChars       = 280 // of the current work of an agent
)

// Identity is the identity of an agent of another registry. No other members are forwarded.
type Identity struct {
	Handle      string         `json:"handle"`
	FederatedID string         `json:"federated_id"`
	Registry    string         `json:"registry"`
	DID         federation.DID `json:"did,omitempty"`
	Keys        []wire.Key     `json:"keys"`
	Public      *string        `json:"public_key"` // null if the registry gives none
	Kind        string         `json:"kind,omitempty"`
	Status      string         `json:"status"`
	WorkingOn   string         `json:"working_on"`
	CreatedAt   string         `json:"created_at,omitempty"`
}

// Presence is the presence of an agent at another registry. No other members are forwarded.
type Presence struct {
	Handle      string `json:"handle"`
	FederatedID string `json:"federated_id"`
	Status      string `json:"status"`
	Context     string `json:"context,omitempty"`
	LastSeen    string `json:"last_seen,omitempty"`
}

type finding struct {
	identity Identity
	err      error
	until    time.Time
}

// found caches responses. Its user takes the map and puts it back.
type found struct{ known chan map[wire.Address]finding }

func newFound() found {
	f := found{known: make(chan map[wire.Address]finding, 1)}
	f.known <- map[wire.Address]finding{}
	return f
}

func (f found) get(of wire.Address, now time.Time) (finding, bool) {
	known := <-f.known
	one, ok := known[of]
	f.known <- known
	return one, ok && now.Before(one.until)
}

func (f found) put(of wire.Address, one finding) {
	known := <-f.known
	if len(known) >= maxFound {
		clear(known)
	}
	known[of] = one
	f.known <- known
}

// AdmitLookup rejects a lookup at a registry without an exchange of messages, or over the rate limit of
// the caller's address.
func (ps *Registries) AdmitLookup(registry string, from netip.Prefix, now time.Time) error {
	if !wire.ValidDomain(registry) {
		return wire.Refuse(wire.CodeBadRequest, "registry is not a host name")
	}
	if _, federated := ps.Exchanges(registry); !federated {
		return ErrBlocked()
	}
	return acquire(ps.unproven.lookups, lookupsPerMinute, from, now)
}

// Identity fetches an agent's identity from its registry. It returns a refusal if the registry does not
// know the agent or does not respond.
func (ps *Registries) Identity(ctx context.Context, registry, handle string, now time.Time) (Identity, error) {
	of := wire.Address{Handle: handle, Domain: registry}
	if known, ok := ps.found.get(of, now); ok {
		return known.identity, known.err
	}
	p, err := ps.peer(ctx, registry, now)
	if err != nil {
		return Identity{}, unreachable(err)
	}
	text, err := ps.ask(ctx, p, p.paths.identity, url.Values{"handle": {handle}})
	one := finding{until: now.Add(foundLife)}
	if err == nil {
		one.identity, err = parseElsewhere(text, of)
		ps.noteUnusable(ctx, registry, err)
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		one.until = now.Add(silenceLife)
		one.err = wire.Refuse(wire.CodeRemoteIdentityNotFound, "that registry has no agent with this handle")
	case err != nil:
		return Identity{}, unreachable(err)
	}
	ps.found.put(of, one)
	return one.identity, one.err
}

// Presence fetches the presence of one agent or, without a handle, of all agents of another registry.
func (ps *Registries) Presence(ctx context.Context, registry, handle string, now time.Time) ([]Presence, error) {
	if handle != "" {
		agent, err := ps.Identity(ctx, registry, handle, now)
		return []Presence{{Handle: agent.Handle, FederatedID: agent.FederatedID, Status: agent.Status, Context: agent.WorkingOn}}, err
	}
	p, err := ps.peer(ctx, registry, now)
	if err != nil {
		return nil, unreachable(err)
	}
	path := string(p.paths.identity)
	beside := federation.URLPath(path[:strings.LastIndexByte(path, '/')]).Join("presence")
	text, err := ps.ask(ctx, p, beside, nil)
	if errors.Is(err, federation.ErrNotFound) {
		text, err = ps.ask(ctx, p, p.paths.presence, nil)
	}
	if err != nil {
		return nil, unreachable(err)
	}
	return parsePresenceElsewhere(text, registry), nil
}

func unreachable(err error) error {
	if _, refused := errors.AsType[*wire.ProblemError](err); refused {
		return err
	}
	return wire.Refuse(wire.CodeFederationUnavailable, "that registry is not available now")
}

// parseElsewhere accepts any dialect. It rejects a response about another agent.
func parseElsewhere(text []byte, of wire.Address) (Identity, error) {
	o, err := wire.ParseObject(text)
	if err == nil && o.Has("identity") {
		o, err = wire.ParseObject(o.Members["identity"])
	}
	if err != nil {
		return Identity{}, useless(of.Domain, unusableJSON, "its answer is not an identity")
	}
	if handle := wire.PlainHandle(o.First("handle")); handle != of.Handle && handle != of.String() {
		return Identity{}, useless(of.Domain, unusableJSON, "its answer is about another agent")
	}
	id := Identity{
		Handle: of.Handle, FederatedID: of.String(), Registry: of.Domain, Keys: []wire.Key{}, Kind: wire.Cut(o.First("kind"), maxWordChars),
		Status: wire.Cut(o.First("presence", "status"), maxWordChars), WorkingOn: wire.Cut(o.First("working_on", "workingOn"), maxWorkChars),
		CreatedAt: wire.Cut(o.First("created_at", "since"), maxWordChars),
	}
	if did, err := federation.ParseDID(o.First("did")); err == nil {
		id.DID = did
	}
	if public, err := wire.ParsePublicKey(o.First("public_key", "publicKey")); err == nil {
		id.Public = new(wire.KeyText(public))
	}
	var keys []wire.Key
	if federation.DecodeJSON(o.Members["keys"], &keys) != nil {
		keys = nil
	}
	for _, key := range keys {
		_, err := signing.DecodeBase64URL(key.Public)
		named := key.ID != "" && len(key.ID) <= maxWordChars && strings.Trim(key.ID, wire.IDChars) == ""
		if err == nil && named && len(key.Public) <= maxWordChars && len(id.Keys) < agents.MaxKeys {
			key.Status = agents.KeyStatus(wire.Cut(string(key.Status), maxWordChars))
			id.Keys = append(id.Keys, key)
		}
	}
	return id, nil
}

func parsePresenceElsewhere(text []byte, registry string) []Presence {
	seen := []Presence{}
	o, err := wire.ParseObject(text)
	if err != nil {
		return seen
	}
	for _, list := range []string{"presence", "agents", "active", "away"} {
		var entries []json.RawMessage
		if federation.DecodeJSON(o.Members[list], &entries) != nil {
			continue
		}
		for _, entry := range entries {
			agent, err := wire.ParseObject(entry)
			if err != nil || len(seen) >= maxPresenceEntries {
				continue
			}
			if handle := wire.PlainHandle(agent.First("handle", "username")); wire.WellFormed(handle) {
				seen = append(seen, Presence{
					Handle: handle, FederatedID: wire.Address{Handle: handle, Domain: registry}.String(), Status: wire.Cut(agent.First("status"), maxWordChars),
					Context: wire.Cut(agent.First("context", "working_on", "workingOn"), maxWorkChars), LastSeen: wire.Cut(agent.First("last_seen", "lastSeen"), maxWordChars),
				})
			}
		}
	}
	return seen
}

// Paths at other registries, relative to the base of each. The last three are defaults: a registry
// publishes its own paths.
const (
	wellKnownPath        federation.URLPath = "/.well-known/airc"
	agentPath            federation.URLPath = "/.well-known/airc/identity"
	federatedConsentPath federation.URLPath = "/federation/consent"

	defaultRelayPath    federation.URLPath = "/api/federation/relay"
	defaultIdentityPath federation.URLPath = "/api/federation/identity"
	defaultPresencePath federation.URLPath = "/api/presence"
)

// endpoints are the published paths of a registry. They never name another host.
type endpoints struct {
	relay    federation.URLPath
	identity federation.URLPath // takes ?handle=
	presence federation.URLPath // lists the public agents, for clients of /api
}

func parseEndpoints(domain string, doc wellKnown) (endpoints, error) {
	var e endpoints
	for path, text := range map[*federation.URLPath]string{
		&e.relay:    cmp.Or(doc.Federation.RelayEndpoint, doc.Federation.Relay, string(defaultRelayPath)),
		&e.identity: cmp.Or(doc.Federation.DiscoveryEndpoint, string(defaultIdentityPath)),
		&e.presence: cmp.Or(doc.Versions["0.1"].Endpoints.Presence, string(defaultPresencePath)),
	} {
		parsed, err := federation.ParseURLPath(text)
		if err != nil {
			return endpoints{}, useless(domain, unusableElsewhere, "an endpoint in its well-known document is not a path: "+err.Error())
		}
		*path = parsed
	}
	return e, nil
}

func (p Peer) at(path federation.URLPath, query url.Values) (string, error) {
	return federation.JoinURL(p.base, path, query)
}

// ask returns the errors of [identity.Client.Get].
func (ps *Registries) ask(ctx context.Context, p Peer, path federation.URLPath, query url.Values) ([]byte, error) {
	address, err := p.at(path, query)
	if err != nil {
		return nil, err
	}
	text, err := ps.deps.Fetch.Get(ctx, address)
	if err == nil && federation.ExactJSON(text) != nil {
		err = useless(p.Domain, unusableJSON, "its answer is not JSON that all parsers read alike")
	}
	ps.noteUnusable(ctx, p.Domain, err)
	return text, err
}

// Labels in the counter of unreadable input.
const (
	unusableJSON      = "json"     // not JSON, of an unexpected type, or ambiguous
	unusableSize      = "size"     // above the limit
	unusableElsewhere = "redirect" // to another host or an invalid location
	unusableSlow      = "slow"     // incomplete at the deadline
	unusableKey       = "key"      // unreadable, or different from the key in DNS
)

type uselessError struct{ reason, why string }

func (e *uselessError) Error() string { return e.why }

// useless treats the problem as temporary: the next response may be usable.
func useless(domain, reason, why string) error {
	return &federation.UnavailableError{What: "registry " + domain, Err: &uselessError{reason, why}}
}

func unusable(err error) string {
	if e, ok := errors.AsType[*uselessError](err); ok {
		return e.reason
	}
	switch {
	case errors.Is(err, identity.ErrTooLarge):
		return unusableSize
	case errors.Is(err, identity.ErrNotAllowed):
		return unusableElsewhere
	case errors.Is(err, context.DeadlineExceeded):
		return unusableSlow
	}
	return ""
}

// noteUnusable does not log the content. The request rate bounds the number of lines.
func (ps *Registries) noteUnusable(ctx context.Context, domain string, err error) {
	reason := unusable(err)
	if reason == "" || ctx.Err() != nil {
		return
	}
	ps.deps.Metrics.BadInput.WithLabelValues(wire.Network, wire.Network, reason).Inc()
	ps.deps.Log.LogAttrs(ctx, slog.LevelInfo, "answer of a registry not used", slog.String("network", wire.Network), slog.String("link", wire.Network),
		slog.String("peer", domain), slog.String("reason", reason), slog.Any("err", err))
}

// push returns the errors of [identity.Client.Post], and leaves all responses to the caller.
func (ps *Registries) push(ctx context.Context, p Peer, address string, body []byte) (identity.Answer, error) {
	reply, err := ps.deps.Fetch.Post(ctx, address, body)
	switch {
	case err != nil:
		ps.noteUnusable(ctx, p.Domain, err)
	case reply.Status >= http.StatusMultipleChoices && reply.Status < http.StatusBadRequest:
		ps.noteUnusable(ctx, p.Domain, useless(p.Domain, unusableElsewhere, "it answered with a redirect"))
	case !json.Valid(reply.Body):
		ps.noteUnusable(ctx, p.Domain, useless(p.Domain, unusableJSON, "its answer is not JSON"))
	}
	return reply, err
}
