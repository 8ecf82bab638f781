// Package a2aclient offers work to external A2A agents. Each agent is a link and a party. An offer to
// it becomes a task of the agent, and the states of the task become steps.
//
// The link keeps a journal of each task in the record until the handoff is over. It writes a note
// before it sends a message, and the task after a response. A crash or a broken connection may leave
// the result of a send unknown. The link then lists the agent's tasks in the context before it resends.
//
// Only GetTask is authoritative about a task. Streams, push notifications and timers only trigger
// GetTask.
//
// spec: a2a-1.0, agent-faces §5
package a2aclient

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/journals"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Label is the label of this network in metrics and lists.
const Label = "a2a-agent"

const network = Label

// anyone is the value of offer_from that allows all offerers.
const anyone = "any"

// Config is one [[a2a.agents]] table.
type Config struct {
	Name            string   `toml:"name"` // unique among all links
	Card            string   `toml:"card"`
	CredentialsFile string   `toml:"credentials_file"`
	ClientID        string   `toml:"client_id"`
	ClientKeyFile   string   `toml:"client_key_file"`
	Accepts         []string `toml:"accepts"` // kinds; empty for all
	OfferFrom       []string `toml:"offer_from"`
	Claims          []string `toml:"claims"` // capabilities of the open offers sent to the agent; empty for none
	AllowPrivate    bool     `toml:"allow_private"`
}

// DefaultConfig returns the defaults of the table.
func DefaultConfig() Config { return Config{OfferFrom: []string{anyone}} }

// Deps are the dependencies of the network besides [bridge.Ports].
type Deps struct {
	Journals *journals.Journals // of the tasks, and of the pinned keys
	Record   registry.Bound
	// Transport returns guarded connections; nil for a check of the configuration.
	Transport func(allowPrivate bool) *http.Transport
	Hub       *Hub
}

// Network describes external A2A agents. The reference of the parent table a2a includes this table.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "a2a.agents", Many: true,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg := DefaultConfig()
			t.Decode(&cfg)
			secrets, err := cfg.read(p.Secrets)
			if err != nil {
				return nil, err
			}
			return open(cfg, secrets, deps, p), nil
		},
	}
}

type secrets struct {
	credential string             // "" for none
	clientKey  ed25519.PrivateKey // nil for none
}

// read joins one [*bridge.KeyError] per mistake.
func (c *Config) read(files bridge.Secrets) (secrets, error) {
	var s secrets
	var mistakes []error
	mistake := func(key, why string) { mistakes = append(mistakes, &bridge.KeyError{Key: key, Why: why}) }
	if !federation.ValidName(c.Name) {
		mistake("name", "is required: lower-case letters, digits and hyphens")
	}
	address, err := CardURL(c.Card)
	if err != nil {
		mistake("card", err.Error())
	}
	c.Card = address
	if c.CredentialsFile != "" {
		if s.credential, err = files.Secret(c.CredentialsFile); err != nil {
			mistake("credentials_file", err.Error())
		}
	}
	if (c.ClientID == "") != (c.ClientKeyFile == "") {
		mistake("client_id", "client_id and client_key_file are given together")
	}
	if c.ClientKeyFile != "" {
		text, err := files.Secret(c.ClientKeyFile)
		seed, notHex := hex.DecodeString(text)
		switch {
		case err != nil:
			mistake("client_key_file", err.Error())
		case notHex != nil || len(seed) != ed25519.SeedSize:
			mistake("client_key_file", "want 64 hex characters of an Ed25519 seed")
		default:
			s.clientKey = ed25519.NewKeyFromSeed(seed)
		}
	}
	if c.CredentialsFile != "" && c.ClientKeyFile != "" {
		mistake("credentials_file", "want a credential or the key of a client, not both")
	}
	if len(c.OfferFrom) == 0 {
		mistake("offer_from", `want DIDs, names of links, or "any"`)
	}
	if slices.Contains(c.Accepts, "") {
		mistake("accepts", "want names of kinds")
	}
	if slices.ContainsFunc(c.Claims, func(name string) bool { return !federation.ValidName(name) }) {
		mistake("claims", "want names of capabilities")
	}
	return s, errors.Join(mistakes...)
}

// spec: RFC 8615
const wellKnownCard = "/.well-known/agent-card.json"

// CardURL returns the address of a card. A host without a path has the well-known one.
func CardURL(text string) (string, error) {
	if !strings.Contains(text, "://") && text != "" {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("want the https URL of an agent card")
	case u.User != nil || u.Fragment != "":
		return "", errors.New("want a URL without credentials and fragment; use credentials_file")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = wellKnownCard
	}
	return u.String(), nil
}

// BoundName returns the name and DID that a home gives to the agent of a link.
func BoundName(home federation.HomeID, link string) federation.BoundName {
	return federation.BoundName{Network: link, Name: link, DID: federation.DID(string(home.DID()) + ":a2a:" + link)}
}

func open(cfg Config, s secrets, deps Deps, p bridge.Ports) *Link {
	did := BoundName(p.Home, cfg.Name).DID
	l := &Link{
		cfg: cfg, secrets: s, deps: deps, ports: p, did: did,
		log: p.Log.With(slog.String("network", network), slog.String("link", cfg.Name)),
		steps: stepbuilder.Builder{
			Network: network, Link: cfg.Name, Home: p.Home, Gateway: p.Gateway, Record: deps.Record, Signer: p.Signer, Evidence: p.Evidence,
			Bindings: p.Bindings, PublicURL: p.PublicURL,
		},
		lost:  make(chan error, 1),
		tasks: map[federation.HandoffID]*task{}, blocked: map[federation.HandoffID]string{},
	}
	l.kept = sync.OnceValue(func() federation.SigningKey { return p.Signer.Kept("person:" + string(did)) })
	if deps.Transport != nil {
		l.http = l.newHTTPClient(l.authorize)
	}
	return l
}
