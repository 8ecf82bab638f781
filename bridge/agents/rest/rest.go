// Package rest is the REST API for agents, /api/v1: handoffs and inboxes over plain
// HTTP, for agents without a connection. Package contract is its contract. The API checks each
// request against that first.
//
// A caller that proves a DID with a key of its document acts as that DID while its tokens
// last. The caller signs a step itself, or the gateway signs it for the DID of the token and
// keeps the request as evidence; the home judges both as it judges steps from IRC. The API
// shows a handoff to its parties, to members of its channel, to DIDs that declared what an
// open offer asks for, and to operators. To other callers it does not exist. A notice tells an
// agent later what became of its step, or that a webhook is disabled; the record keeps notices,
// and clients read them from a cursor on.
//
// A [Link] keeps in memory only which requests wait: it makes tokens and challenges with a
// key, and the rest is in the record. Its routes may be called concurrently.
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

	"baton/bridge"
	"baton/bridge/agents/participant"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
)

// network is the label of this network, and the name of its only link.
const network = "rest"

// Prefix is the path below which everything is but the contract itself.
const Prefix = participant.Path

// Deps is what the API works with.
type Deps struct {
	participant.Deps

	Leases   Leases
	Notices  Notices
	Webhooks Webhooks
	Hooks    bridge.Webhooks // creates webhooks; nil where the gateway has none
}

// Link is the API of one gateway. It implements [bridge.Mounted].
type Link struct {
	*participant.HTTPLink

	cfg        Config
	deps       Deps
	access     *participant.Access
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
	l.topics = participant.NewTopics(d.Wakes, l.read)
	return l
}

// Run implements [bridge.Link]. It ends all requests that wait or watch, and returns when this API
// watches no inbox any more: the HTTP listener waits for its requests, but not for WebSockets.
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
	MaxWait    time.Duration `toml:"max_wait"`    // of a poll; zero for none
	MaxStreams int           `toml:"max_streams"` // of all callers together
}

// DefaultConfig returns the table as it is where the file says nothing.
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

// Network describes the REST API for agents. Its link gets the ports of each link in the place
// of those in deps.
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

// Leases gives the entries of inboxes to devices for a time.
type Leases interface {
	// Lease gives a device up to limit waiting entries that no device holds, until a moment.
	Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack ends the waiting of a leased entry. Ack, Nack and Extend return
	// [federation.ErrLeaseLost] where the entry was given out again, and
	// [federation.ErrNotFound] for a cursor that no lease has.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
	// Nack gives an entry back. No device gets it before a moment.
	Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error
	// Extend moves the end of a lease.
	Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error
}

// Notices reads the notices of the record.
type Notices interface {
	// NoticesTo returns up to limit notices of a link to a reader after a cursor, oldest
	// first. It returns [federation.ErrUnknownCursor] for a cursor of another reader.
	NoticesTo(ctx context.Context, link string, to federation.DID, after federation.Cursor, limit int) ([]federation.Notice, error)
}

// Webhooks reads and changes the webhooks of the record.
type Webhooks interface {
	// Webhook returns [federation.ErrNotFound] for an unknown ID, as RemoveHook and PushAgain do.
	Webhook(ctx context.Context, id federation.WebhookID) (federation.Webhook, error)
	// Webhooks returns up to limit webhooks of a DID by ID, after one.
	Webhooks(ctx context.Context, of federation.DID, after federation.WebhookID, limit int) ([]federation.Webhook, error)
	// WebhookBacklog counts the pending deliveries of a webhook.
	WebhookBacklog(ctx context.Context, id federation.WebhookID) (federation.WebhookBacklog, error)
	// RemoveWebhook deletes a webhook and its deliveries.
	RemoveWebhook(ctx context.Context, id federation.WebhookID) error
	// Pushes returns up to limit deliveries of a webhook, the newest first, before a
	// position, or from the newest with 0.
	Pushes(ctx context.Context, id federation.WebhookID, before int64, limit int) ([]federation.Push, error)
	// PushAgain schedules the deliveries of what ref names, or with "" all that failed, and
	// returns how many there are.
	PushAgain(ctx context.Context, id federation.WebhookID, ref string, now time.Time) (int, error)
	// AgentOf returns the agent that registered with a DID, or [federation.ErrNotFound].
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
}

// Authenticate implements [bridge.Authenticator]: callers that proved a DID here keep the
// token on the other routes of the gateway.
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
	who.Session, err = credential.SessionOf(r.Context(), l.deps.Sessions, claims, now)
	if errors.Is(err, credential.ErrSession) || errors.Is(err, federation.ErrSessionEnded) {
		return who, false, nil
	}
	return who, err == nil, err
}
