// Package a2a serves clients of A2A 1.0 and 0.3: each agent behind the gateway has a signed card and
// an endpoint, and a handoff to it is a task.
// A message to the endpoint of an agent opens a handoff to that agent; a message to the endpoint of the
// gateway opens one that any agent may claim. The caller is the offerer. Steps of other networks appear in
// tasks too.
//
// The record stores the message of a task as the evidence of its offer. A push configuration is a webhook
// that follows one handoff. The routes may be called concurrently.
//
// spec: a2a-1.0
package a2a

import (
	"context"
	"crypto/ed25519"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

const network = "a2a"

// Deps are the dependencies of the link.
type Deps struct {
	participant.Deps

	Agents     Agents
	Hooks      bridge.Webhooks // nil for none
	PublicKeys PublicKeys
	Version    string // of the gateway
}

// Link serves A2A for one gateway. It implements [bridge.Mounted].
type Link struct {
	*participant.HTTPLink

	deps   Deps
	access *participant.Service
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

// spec: RFC 8615
const cardPath = "/.well-known/agent-card.json"

// Mount implements [bridge.Mounted].
func (l *Link) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+cardPath, l.serveGatewayCard)
	mux.HandleFunc("GET "+legacyCardPath, l.serveGatewayCard)
	mux.HandleFunc("GET "+keysPath, l.serveKeys)
	mux.HandleFunc("GET "+agentPath+"{did}"+cardPath, l.serveAgentCard)
	mux.HandleFunc("GET "+agentPath+"{did}"+legacyCardPath, l.serveAgentCard)
	l.mountREST(mux)
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

// addressee resolves a DID whose key the gateway keeps to its owner.
func (l *Link) addressee(r *http.Request) (federation.DID, error) {
	did, err := federation.ParseDID(r.PathValue("did"))
	if err != nil {
		return "", errNoAgent()
	}
	return l.deps.Gateway.Owner(r.Context(), did)
}

// authenticate rejects operators: an operator has no DID, and so no tasks.
func (l *Link) authenticate(r *http.Request) (participant.Caller, error) {
	if err := l.access.CheckOrigin(r); err != nil {
		return participant.Caller{}, err
	}
	who, err := l.access.Authenticate(r, time.Now())
	if err != nil {
		return participant.Caller{}, err
	}
	_, err = who.Person()
	return who, err
}

//go:embed reference.toml
var referenceFile string

// Table is the name of the table [Config].
const Table = "a2a"

// Config is the table [a2a] of the configuration.
type Config struct {
	Enabled bool `toml:"enabled"`
	// Agents are external agents, each with its own link; see [a2aclient.Network].
	Agents []a2aclient.Config `toml:"agents"`
}

// DefaultConfig returns the defaults of the table.
func DefaultConfig() Config { return Config{Enabled: true} }

// Network describes the cards and tasks of A2A. Open replaces the ports in deps with the ports of
// the link.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: Table, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if !cfg.Enabled {
				return nil, bridge.ErrOff
			}
			deps.Ports = p
			return Open(deps)
		},
	}
}

// Agents looks up the local agents that accept tasks. Its methods block on the record.
type Agents interface {
	// AgentOf returns [federation.ErrNotFound] for a DID that did not register an agent.
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
	// Here reports whether the mailbox of a DID is at this home.
	Here(ctx context.Context, did federation.DID) (bool, error)
}

// PublicKeys returns the keys that verify signatures of the home at the given time, the current signing key
// first. It does not block.
type PublicKeys func(now time.Time) []ed25519.PublicKey

type evidence struct {
	Network  string `json:"network"`
	Document string `json:"document"`
}

type document struct {
	Body json.RawMessage `json:"body"`
}

// origin returns the zero origin for an offer of another network. The evidence is trusted: this gateway
// wrote it.
func (l *Link) origin(ctx context.Context, offer federation.Event) (origin, error) {
	if offer.Evidence == nil {
		return origin{}, nil
	}
	text, err := l.deps.Record.Evidence(ctx, offer.Evidence.Digest)
	if errors.Is(err, federation.ErrNotFound) {
		return origin{}, nil
	}
	if err != nil {
		return origin{}, fmt.Errorf("read message of task %s: %w", offer.Handoff, err)
	}
	return originIn(text), nil
}

func originIn(text []byte) origin {
	var e evidence
	var d document
	var m wire.Message
	if federation.DecodeJSON(text, &e) != nil || e.Network != network ||
		federation.DecodeJSON([]byte(e.Document), &d) != nil || federation.DecodeJSON(d.Body, &m) != nil {
		return origin{}
	}
	return origin{contextID: m.ContextID, message: &m}
}

func requestPath(agent federation.DID) string {
	if agent == "" {
		return gatewayPath
	}
	return agentPath + string(agent)
}
