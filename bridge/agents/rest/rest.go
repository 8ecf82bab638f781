// Package rest is the REST API for agents, /api/v1: handoffs and inboxes over plain HTTP, for
// agents without a connection. Package contract is its contract, against which the API first
// checks each request.
//
// A caller that proves a DID with a key of its document acts as that DID while its tokens last.
// The caller signs a step itself, or the gateway signs it for the DID of the token and keeps the
// request as evidence; the home judges both like steps from IRC. The API shows a handoff to its
// parties, to members of its channel and to operators, and an open offer to each caller. To other
// callers a handoff does not exist. A notice later informs an agent of the outcome of its step, or
// of a disabled webhook; the record keeps notices, and clients read them after a cursor.
//
// A [Link] keeps only the waiting requests in memory: it makes tokens and challenges with a key,
// and the rest is in the record. Its routes may be called concurrently.
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

// network is the label of this network, and the name of its only link.
const network = "rest"

// Prefix is the path prefix of everything except the contract itself.
const Prefix = participant.Path

// Deps are the dependencies of the API.
type Deps struct {
	participant.Deps

	Hooks bridge.Webhooks // creates webhooks; nil for none
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
	streams    chan struct{} // one token for each inbox watched here; full once Run has ended
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

// Run implements [bridge.Link]. It ends all waiting and watching requests, and returns when this
// API no longer watches any inbox, because the HTTP listener does not wait for WebSockets.
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
	MaxWait    time.Duration `toml:"max_wait"`    // maximum wait of a poll; zero disables polls
	MaxStreams int           `toml:"max_streams"` // maximum number of streams of all callers
}

// DefaultConfig returns the defaults of the table.
func DefaultConfig() Config {
	return Config{Enabled: true, MaxWait: 50 * time.Second, MaxStreams: 10000}
}

// maxWait is the longest wait of a poll: the listener ends an answer that takes a minute, and
// many proxies end it before that.
const maxWait = 55 * time.Second

// check returns all mistakes, each a [*bridge.KeyError], joined.
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

// Network describes the REST API for agents. Open replaces the ports in deps with the ports of the
// link.
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

// Authenticate implements [bridge.Authenticator]: a token issued here is valid on the
// other routes of the gateway.
func (l *Link) Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return who, false, nil //nolint:nilerr // the request carries no token
	}
	now := time.Now()
	claims, err := l.access.Tokens().Read(text, credential.Access, now)
	if err != nil {
		return who, false, nil //nolint:nilerr // the token may be that of another link
	}
	who.DID = federation.DID(claims.Subject)
	who.Session, err = credential.SessionOf(r.Context(), l.deps.Record.Participants, claims, now)
	if errors.Is(err, credential.ErrSession) || errors.Is(err, federation.ErrSessionEnded) {
		return who, false, nil
	}
	return who, err == nil, err
}
