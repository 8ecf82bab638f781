// Package a2a is the face of the gateway for clients of A2A 1.0: each agent behind the gateway has
// a signed card and an endpoint, and a handoff to it is a task.
//
// A message to the endpoint of an agent opens a handoff to that agent; a message to the endpoint
// of the gateway opens one that any agent may claim. The caller is the offerer. Package
// participant files, finds and shows the handoffs, by the rules of the REST API; this package
// translates. Steps that other networks take appear in tasks like steps that come by A2A.
//
// The record keeps the message of a task as the evidence of its offer, and the link reads the
// contextId and the parts from there. A push configuration is a webhook that follows one handoff.
// The link keeps in memory only which requests wait. Its routes may be called concurrently.
//
// spec: a2a-1.0
package a2a

import (
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/participant"
	"baton/federation"
)

// network is the label of this network, and the name of its only link.
const network = "a2a"

// Deps is what the link works with.
type Deps struct {
	participant.Deps

	Agents     Agents
	Record     Record
	Webhooks   Webhooks
	Hooks      bridge.Webhooks // nil where the gateway has none
	PublicKeys PublicKeys
	Version    string // of the gateway
}

// Link is the face of one gateway. It implements [bridge.Mounted].
type Link struct {
	*participant.HTTPLink

	deps   Deps
	access *participant.Access
	seal   sealer
}

var _ bridge.Mounted = (*Link)(nil)

// Open returns the link. It does no I/O.
func Open(d Deps) (*Link, error) {
	seal, err := newSealer(d.TokenKey)
	if err != nil {
		return nil, err
	}
	return &Link{HTTPLink: participant.NewHTTPLink(network), deps: d, access: participant.Open(network, d.Deps), seal: seal}, nil
}

// cardPath is where the card of a server is.
//
// spec: RFC 8615
const cardPath = "/.well-known/agent-card.json"

// Mount implements [bridge.Mounted].
func (l *Link) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+cardPath, l.serveGatewayCard)
	mux.HandleFunc("GET "+keysPath, l.serveKeys)
	mux.HandleFunc("GET "+agentPath+"{did}"+cardPath, l.serveAgentCard)
	mux.HandleFunc("POST "+gatewayPath, func(w http.ResponseWriter, r *http.Request) { l.serveRPC(w, r, "") })
	mux.HandleFunc("POST "+agentPath+"{did}", func(w http.ResponseWriter, r *http.Request) {
		did, err := l.addressee(r)
		if err != nil {
			l.deny(w, r, err)
			return
		}
		l.serveRPC(w, r, did)
	})
}

// addressee returns the DID of the agent that a request addresses: the DID in the path, or its
// owner if the gateway keeps that key.
func (l *Link) addressee(r *http.Request) (federation.DID, error) {
	did, err := federation.ParseDID(r.PathValue("did"))
	if err != nil {
		return "", errNoAgent()
	}
	return l.deps.Gateway.Owner(r.Context(), did)
}

// authenticate returns the caller of a request. An operator has no DID, and so no tasks.
func (l *Link) authenticate(r *http.Request) (participant.Caller, error) {
	who, err := l.access.Authenticate(r, time.Now())
	if err != nil {
		return participant.Caller{}, err
	}
	_, err = who.Person()
	return who, err
}
