package airc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
	"baton/federation/signing"
)

// Bounds of what this registry asks others on behalf of a caller, and of what it passes on.
const (
	lookupsPerMinute   = 30 // from one address
	foundLife          = 5 * time.Minute
	maxFound           = 1024 // identities in memory, a few KiB each
	maxPresenceEntries = 500
	maxWordChars       = 64  // of a status, a kind, a time
	maxWorkChars       = 280 // of what an agent works on
)

// identityElsewhere is what this registry reads of an agent of another registry. It passes
// on these members and no others.
type identityElsewhere struct {
	Handle      string         `json:"handle"`
	FederatedID string         `json:"federated_id"`
	Registry    string         `json:"registry"`
	DID         federation.DID `json:"did,omitempty"`
	Keys        []identityKey  `json:"keys"`
	Public      *string        `json:"public_key"` // null where the registry tells none
	Kind        string         `json:"kind,omitempty"`
	Status      string         `json:"status"`
	WorkingOn   string         `json:"working_on"`
	CreatedAt   string         `json:"created_at,omitempty"`
}

// presenceElsewhere is what this registry reads of the presence of an agent elsewhere.
type presenceElsewhere struct {
	Handle      string `json:"handle"`
	FederatedID string `json:"federated_id"`
	Status      string `json:"status"`
	Context     string `json:"context,omitempty"`
	LastSeen    string `json:"last_seen,omitempty"`
}

// finding is the answer of a registry about one handle.
type finding struct {
	identity identityElsewhere
	err      error
	until    time.Time
}

// found is what other registries answered lately. Its user takes the map and puts it back.
type found struct{ known chan map[remote]finding }

func newFound() found {
	f := found{known: make(chan map[remote]finding, 1)}
	f.known <- map[remote]finding{}
	return f
}

func (f found) get(of remote, now time.Time) (finding, bool) {
	known := <-f.known
	one, ok := known[of]
	f.known <- known
	return one, ok && now.Before(one.until)
}

func (f found) put(of remote, one finding) {
	known := <-f.known
	if len(known) >= maxFound {
		clear(known)
	}
	known[of] = one
	f.known <- known
}

// getFederationIdentity answers GET /federation/identity: an agent of this registry, or of
// another one, as that registry tells of it.
func (l *Link) getFederationIdentity(c *call) (answer, error) {
	if l.cfg.Federation == FederationOff {
		return answer{}, errBlocked()
	}
	query, now := c.URL.Query(), time.Now()
	handle := plainHandle(query.Get("handle"))
	if !wellFormed(handle) {
		return answer{}, refuse(codeBadRequest, "Invalid handle format")
	}
	registry := lowerASCII(query.Get("registry"))
	if registry == "" || registry == l.domain {
		who, err := known(l.find(c.Context(), handle))
		if err != nil {
			return answer{}, federationRefusal(err)
		}
		return answer{status: http.StatusOK, body: members{"success": true, "identity": l.identifyDeployed(who, now)}}, nil
	}
	if err := l.admitLookup(registry, credential.AddressOf(c.Request), now); err != nil {
		return answer{}, err
	}
	who, err := l.askIdentity(c.Context(), registry, handle, now)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: members{"success": true, "registry": registry, "identity": who}}, nil
}

// getFederationPresence answers GET /federation/presence: the agents that anyone may see,
// here or at another registry, or with a handle the presence of that agent elsewhere.
func (l *Link) getFederationPresence(c *call) (answer, error) {
	if l.cfg.Federation == FederationOff {
		return answer{}, errBlocked()
	}
	query, now := c.URL.Query(), time.Now()
	registry := lowerASCII(query.Get("registry"))
	if registry == "" || registry == l.domain {
		seen := []presence{}
		for _, who := range l.presences.list(now, viewer{}.seesPresence) {
			seen = append(seen, who.describe(viewer{}))
		}
		return answer{status: http.StatusOK, body: members{"success": true, "registry": l.domain, "presence": seen, "count": len(seen)}}, nil
	}
	handle := plainHandle(query.Get("handle"))
	if handle != "" && !wellFormed(handle) {
		return answer{}, refuse(codeBadRequest, "Invalid handle format")
	}
	if err := l.admitLookup(registry, credential.AddressOf(c.Request), now); err != nil {
		return answer{}, err
	}
	seen, err := l.askPresence(c.Context(), registry, handle, now)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: members{"success": true, "registry": registry, "presence": seen, "count": len(seen)}}, nil
}

// admitLookup refuses a look-up at a registry that messages are not exchanged with, and one
// that is too many for the address of its caller.
func (l *Link) admitLookup(registry string, from netip.Prefix, now time.Time) error {
	if !ValidDomain(registry) {
		return refuse(codeBadRequest, "registry is no host name")
	}
	if _, federated := l.peerConfig(registry); !federated {
		return errBlocked()
	}
	return take(l.unproven.lookups, lookupsPerMinute, from, now)
}

// askIdentity asks another registry for an agent, at the endpoint that the registry
// publishes. A registry that does not know the agent is a refusal, and so is a registry
// that does not answer.
func (l *Link) askIdentity(ctx context.Context, registry, handle string, now time.Time) (identityElsewhere, error) {
	of := remote{handle, registry}
	if known, ok := l.found.get(of, now); ok {
		return known.identity, known.err
	}
	p, err := l.peer(ctx, registry, now)
	if err != nil {
		return identityElsewhere{}, unreachable(err)
	}
	text, err := l.ask(ctx, p, p.paths.identity, url.Values{"handle": {handle}})
	one := finding{until: now.Add(foundLife)}
	if err == nil {
		one.identity, err = parseElsewhere(text, of)
		l.noteUnusable(ctx, registry, err)
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		one.until = now.Add(silenceLife)
		one.err = refuse(codeRemoteIdentityNotFound, "that registry knows no agent of this handle")
	case err != nil:
		return identityElsewhere{}, unreachable(err)
	}
	l.found.put(of, one)
	return one.identity, one.err
}

// askPresence asks another registry which of its agents are there: one agent at the
// endpoint for identities, or all beside it. Deployed registries list theirs below /api.
func (l *Link) askPresence(ctx context.Context, registry, handle string, now time.Time) ([]presenceElsewhere, error) {
	if handle != "" {
		agent, err := l.askIdentity(ctx, registry, handle, now)
		return []presenceElsewhere{{Handle: agent.Handle, FederatedID: agent.FederatedID, Status: agent.Status, Context: agent.WorkingOn}}, err
	}
	p, err := l.peer(ctx, registry, now)
	if err != nil {
		return nil, unreachable(err)
	}
	path := string(p.paths.identity)
	beside := federation.URLPath(path[:strings.LastIndexByte(path, '/')]).Join("presence")
	text, err := l.ask(ctx, p, beside, nil)
	if errors.Is(err, federation.ErrNotFound) {
		text, err = l.ask(ctx, p, p.paths.presence, nil)
	}
	if err != nil {
		return nil, unreachable(err)
	}
	return parsePresenceElsewhere(text, registry), nil
}

// unreachable says in the words between registries that another one cannot be asked.
func unreachable(err error) error {
	if _, refused := errors.AsType[*problem](err); refused {
		return err
	}
	return refuse(codeFederationUnavailable, "that registry cannot be asked now")
}

// parseElsewhere reads what a registry tells of one of its agents, in the shape of any
// dialect. An answer about another agent is of no use.
func parseElsewhere(text []byte, of remote) (identityElsewhere, error) {
	o, err := parseObject(text)
	if err == nil && o.has("identity") {
		o, err = parseObject(o.members["identity"])
	}
	if err != nil {
		return identityElsewhere{}, useless(of.domain, unusableJSON, "its answer is no identity")
	}
	if handle := plainHandle(o.first("handle")); handle != of.handle && handle != of.String() {
		return identityElsewhere{}, useless(of.domain, unusableJSON, "its answer is about another agent")
	}
	id := identityElsewhere{
		Handle: of.handle, FederatedID: of.String(), Registry: of.domain, Keys: []identityKey{}, Kind: cut(o.first("kind"), maxWordChars),
		Status: cut(o.first("presence", "status"), maxWordChars), WorkingOn: cut(o.first("working_on", "workingOn"), maxWorkChars),
		CreatedAt: cut(o.first("created_at", "since"), maxWordChars),
	}
	if did, err := federation.ParseDID(o.first("did")); err == nil {
		id.DID = did
	}
	if public, err := parsePublicKey(o.first("public_key", "publicKey")); err == nil {
		id.Public = new(registryKeyText(public))
	}
	var keys []identityKey
	if federation.DecodeJSON(o.members["keys"], &keys) != nil {
		keys = nil
	}
	for _, key := range keys {
		_, err := signing.DecodeBase64URL(key.Public)
		named := key.ID != "" && len(key.ID) <= maxWordChars && strings.Trim(key.ID, idChars) == ""
		if err == nil && named && len(key.Public) <= maxWordChars && len(id.Keys) < agents.MaxKeys {
			key.Status = agents.KeyStatus(cut(string(key.Status), maxWordChars))
			id.Keys = append(id.Keys, key)
		}
	}
	return id, nil
}

// parsePresenceElsewhere reads a list of agents in the shape of any dialect.
func parsePresenceElsewhere(text []byte, registry string) []presenceElsewhere {
	seen := []presenceElsewhere{}
	o, err := parseObject(text)
	if err != nil {
		return seen
	}
	for _, list := range []string{"presence", "agents", "active", "away"} {
		var entries []json.RawMessage
		if federation.DecodeJSON(o.members[list], &entries) != nil {
			continue
		}
		for _, entry := range entries {
			agent, err := parseObject(entry)
			if err != nil || len(seen) >= maxPresenceEntries {
				continue
			}
			if handle := plainHandle(agent.first("handle", "username")); wellFormed(handle) {
				seen = append(seen, presenceElsewhere{
					Handle: handle, FederatedID: remote{handle, registry}.String(), Status: cut(agent.first("status"), maxWordChars),
					Context: cut(agent.first("context", "working_on", "workingOn"), maxWorkChars), LastSeen: cut(agent.first("last_seen", "lastSeen"), maxWordChars),
				})
			}
		}
	}
	return seen
}

// Paths at other registries, below the base of each. A registry publishes its own paths for
// the last three; these are the paths of the registries that publish none.
const (
	wellKnownPath        federation.URLPath = "/.well-known/airc"
	agentPath            federation.URLPath = "/.well-known/airc/identity"
	federatedConsentPath federation.URLPath = "/federation/consent"

	defaultRelayPath    federation.URLPath = "/api/federation/relay"
	defaultIdentityPath federation.URLPath = "/api/federation/identity"
	defaultPresencePath federation.URLPath = "/api/presence"
)

// endpoints are the paths that a registry publishes. Each is a path below the registry's
// own base, never another host.
type endpoints struct {
	relay    federation.URLPath
	identity federation.URLPath // takes ?handle=
	presence federation.URLPath // lists the agents that anyone may see, for clients of /api
}

// parseEndpoints reads the endpoints in a well-known document.
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

// at returns the address of a path at a registry.
func (p peer) at(path federation.URLPath, query url.Values) (string, error) {
	return federation.JoinURL(p.base, path, query)
}

// ask gets JSON from another registry. It returns the errors of [identity.Client.Get].
func (l *Link) ask(ctx context.Context, p peer, path federation.URLPath, query url.Values) ([]byte, error) {
	address, err := p.at(path, query)
	if err != nil {
		return nil, err
	}
	text, err := l.deps.Fetch.Get(ctx, address)
	if err == nil && federation.ExactJSON(text) != nil {
		err = useless(p.Domain, unusableJSON, "it answered no JSON that one reads alike everywhere")
	}
	l.noteUnusable(ctx, p.Domain, err)
	return text, err
}

// Why an answer of another registry is of no use: reasons of the counter of what could
// not be read. One that does not answer at all is none of these.
const (
	unusableJSON      = "json"     // none, none of a kind that one reads, or one with two meanings
	unusableSize      = "size"     // more than one reads
	unusableElsewhere = "redirect" // it names another host, or a place that is none
	unusableSlow      = "slow"     // not whole in time
	unusableKey       = "key"      // cannot be read, or is not the one in DNS
)

// uselessError is an answer of another registry that was read and is of no use.
type uselessError struct{ reason, why string }

// Error implements error.
func (e *uselessError) Error() string { return e.why }

// useless says that an answer of a registry is of no use. The next one may be.
func useless(domain, reason, why string) error {
	return &federation.UnavailableError{What: "registry " + domain, Err: &uselessError{reason, why}}
}

// unusable returns why an answer is of no use, "" where there was none.
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

// noteUnusable counts and logs an unusable answer of another registry, without the content
// of the answer. The rate of requests bounds the number of lines.
func (l *Link) noteUnusable(ctx context.Context, domain string, err error) {
	reason := unusable(err)
	if reason == "" || ctx.Err() != nil {
		return
	}
	l.deps.Metrics.BadInput.WithLabelValues(network, network, reason).Inc()
	l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "answer of a registry not used", slog.String("network", network), slog.String("link", network),
		slog.String("peer", domain), slog.String("reason", reason), slog.Any("err", err))
}

// readDocument reads JSON of another registry that everybody reads alike.
func readDocument(text []byte, into any) error {
	if err := federation.ExactJSON(text); err != nil {
		return err
	}
	return federation.DecodeJSON(text, into)
}

// push sends JSON to another registry. Its errors are as for [identity.Client.Post]. The caller
// interprets the answer, an unusable one too.
func (l *Link) push(ctx context.Context, p peer, address string, body []byte) (identity.Answer, error) {
	reply, err := l.deps.Fetch.Post(ctx, address, body)
	switch {
	case err != nil:
		l.noteUnusable(ctx, p.Domain, err)
	case reply.Status >= http.StatusMultipleChoices && reply.Status < http.StatusBadRequest:
		l.noteUnusable(ctx, p.Domain, useless(p.Domain, unusableElsewhere, "it answered with a redirect"))
	case !json.Valid(reply.Body):
		l.noteUnusable(ctx, p.Domain, useless(p.Domain, unusableJSON, "it answered no JSON"))
	}
	return reply, err
}

var _ bridge.Introducer = (*Link)(nil)

// Introduce implements [bridge.Introducer] for HANDLE@DOMAIN, where an operator named the registry
// of the domain. An agent that is new here is filed after its registry says that it knows it. An
// unverified sender is filed if a message of it is held.
func (l *Link) Introduce(ctx context.Context, address string) (federation.DID, error) {
	if strings.HasPrefix(address, agents.Unverified) {
		return l.introduceUnverified(ctx, address)
	}
	of, ok := parseAddress(address)
	if !ok || of.domain == l.domain {
		return "", fmt.Errorf("find address: %w", federation.ErrNotFound)
	}
	agent, err := l.deps.Record.Agent(ctx, of.String())
	if err == nil {
		return agent.DID, nil
	}
	if _, federated := l.peerConfig(of.domain); !errors.Is(err, federation.ErrNotFound) || !federated || !l.configured(of.domain) {
		return "", fmt.Errorf("look up agent: %w", err)
	}
	now := time.Now()
	err = l.admitLookup(of.domain, bridge.SubnetFrom(ctx), now)
	if err == nil {
		_, err = l.askIdentity(ctx, of.domain, of.handle, now)
	}
	if err != nil {
		return "", introduction(of, err)
	}
	agent, err = l.acquaint(ctx, of.String(), now)
	return agent.DID, err
}

// introduceUnverified returns the DID of an unverified sender.
func (l *Link) introduceUnverified(ctx context.Context, handle string) (federation.DID, error) {
	agent, err := l.deps.Record.Agent(ctx, handle)
	if !errors.Is(err, federation.ErrNotFound) {
		return agent.DID, err
	}
	held, err := l.deps.Record.HeldRelays(ctx, handle, "", 0, 1)
	if err == nil && len(held) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", handle, err)
	}
	agent, err = l.acquaint(ctx, handle, time.Now())
	return agent.DID, err
}

// introduction returns the error of a look-up as one of the federation.
func introduction(of remote, err error) error {
	p, ok := errors.AsType[*problem](err)
	switch {
	case !ok:
		return err
	case p.code == codeRemoteIdentityNotFound:
		return fmt.Errorf("%s knows no agent %s: %w", of.domain, of.handle, federation.ErrNotFound)
	case p.code == codeRateLimited:
		return &federation.RefusalError{Code: federation.RateLimited, RetryAfter: p.retryAfter}
	}
	return &federation.UnavailableError{What: "registry " + of.domain, Err: err}
}
