// Package rest is the REST API for agents, /api/v1: handoffs and inboxes over plain HTTP, for agents
// without a connection. Each request is first checked against package contract.
//
// A caller that proves a DID with a key of its document acts as that DID while its tokens last. Steps
// are signed by the caller, or by the gateway for the DID of the token, with the request as evidence.
// The home judges both like steps from IRC. A handoff is visible to its parties, members of its channel
// and operators; an open offer is visible to all callers. A hidden handoff is reported as missing.
// Notices inform an agent of the outcome of a step or of a disabled webhook. The record stores notices;
// clients read them after a cursor.
//
// A [Link] keeps only the waiting requests in memory. A key seals tokens and challenges; all other
// state is in the record. Its routes may be called concurrently.
//
// spec: freeq-handoff-rfc "REST mirror"
package rest

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

const network = "rest"

// Prefix is the path prefix of everything except the contract.
const Prefix = participant.Path

// Deps are the dependencies of the API.
type Deps struct {
	participant.Deps

	Hooks bridge.Webhooks // nil disables webhooks
}

// Link is the API of one gateway. It implements [bridge.Mounted].
type Link struct {
	*participant.HTTPLink

	cfg        Config
	deps       Deps
	access     *participant.Service
	challenges credential.Challenges
	topics     *participant.Topics[place, *page]
	end        sync.Once
	streams    chan struct{} // one token per inbox watched here; full once Run has ended
}

var (
	_ bridge.Mounted       = (*Link)(nil)
	_ bridge.Authenticator = (*Link)(nil)
)

// Open returns the API. It does no I/O.
func Open(cfg Config, d Deps) *Link {
	l := &Link{
		HTTPLink: participant.NewHTTPLink(network),
		cfg:      cfg, deps: d,
		access:     participant.Open(network, d.Deps),
		challenges: credential.NewChallenges(d.TokenKey, network),
		streams:    make(chan struct{}, cfg.MaxStreams),
	}
	l.topics = participant.NewTopics(d.PubSub, l.read)
	return l
}

// Run implements [bridge.Link]. It returns when this API watches no inbox, because the HTTP listener does
// not wait for WebSockets.
func (l *Link) Run(ctx context.Context, up func()) error {
	err := l.HTTPLink.Run(ctx, up)
	l.end.Do(func() {
		for range cap(l.streams) {
			l.streams <- struct{}{}
		}
	})
	return err
}

//go:embed reference.toml
var referenceFile string

// Table is the name of the table [Config].
const Table = "rest"

// Config is the table [rest] of the configuration.
type Config struct {
	Enabled    bool          `toml:"enabled"`
	MaxWait    time.Duration `toml:"max_wait"`    // of a poll; zero disables polls
	MaxStreams int           `toml:"max_streams"` // maximum over all callers
}

// DefaultConfig returns the defaults of the table.
func DefaultConfig() Config {
	return Config{Enabled: true, MaxWait: 50 * time.Second, MaxStreams: 10000}
}

// The listener ends responses after a minute, and many proxies do so earlier.
const maxWait = 55 * time.Second

// check joins all mistakes, each a [*bridge.KeyError].
func (c Config) check() error {
	var mistakes []error
	if c.MaxWait < 0 || c.MaxWait > maxWait {
		mistakes = append(mistakes, &bridge.KeyError{Key: "max_wait", Why: "want 0s to " + maxWait.String()})
	}
	if c.MaxStreams < 1 {
		mistakes = append(mistakes, &bridge.KeyError{Key: "max_streams", Why: "want 1 or more"})
	}
	return errors.Join(mistakes...)
}

// Network describes the REST API for agents. Open replaces the ports in deps with its own.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: Table, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if err := cfg.check(); err != nil {
				return nil, err
			}
			if !cfg.Enabled {
				return nil, bridge.ErrOff
			}
			deps.Ports = p
			return Open(cfg, deps), nil
		},
	}
}

// Authenticate implements [bridge.Authenticator].
func (l *Link) Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return who, false, nil //nolint:nilerr // the request carries no token
	}
	now := time.Now()
	claims, err := l.access.Tokens().Read(text, credential.Access, now)
	if err != nil {
		return who, false, nil //nolint:nilerr // the token may belong to another link
	}
	who.DID = federation.DID(claims.Subject)
	who.Session, err = credential.SessionOf(r.Context(), l.deps.Record.Participants, claims, now)
	if errors.Is(err, credential.ErrSession) || errors.Is(err, federation.ErrSessionEnded) {
		return who, false, nil
	}
	return who, err == nil, err
}
