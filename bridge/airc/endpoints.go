package airc

import (
	"cmp"
	"context"
	"net/url"

	"baton/federation"
)

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

// ask gets JSON from another registry. It returns the errors of [Fetcher.Get].
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
