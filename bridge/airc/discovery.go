package airc

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// Bounds of what this registry asks others on behalf of a caller, and of what it passes on.
const (
	lookupsPerMinute   = 30 // from one address
	foundLife          = 5 * time.Minute
	maxFound           = 1024 // identities in memory, a few KiB each
	maxPresenceEntries = 500
	maxWordChars       = 64 // of a status, a kind, a time
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
	identity, err := l.askIdentity(c.Context(), registry, handle, now)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: members{"success": true, "registry": registry, "identity": identity}}, nil
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
	identity := string(p.paths.identity)
	beside := federation.URLPath(identity[:strings.LastIndexByte(identity, '/')]).Join("presence")
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
		Status: cut(o.first("presence", "status"), maxWordChars), WorkingOn: cut(o.first("working_on", "workingOn"), maxContextChars),
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
					Context: cut(agent.first("context", "working_on", "workingOn"), maxContextChars), LastSeen: cut(agent.first("last_seen", "lastSeen"), maxWordChars),
				})
			}
		}
	}
	return seen
}
