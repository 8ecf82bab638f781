// Package airc is an AIRC registry: agents register here, exchange signed messages with each other and
// with people on other networks, and read their inbox.
//
// To an agent, a handoff is a conversation with a handle. Each DID of another network has a handle
// ([wire.Handle]). Its steps arrive as messages from that handle, signed with the key of the registry.
// The agent's answers become steps: the gateway vouches for them, with the signed message as evidence.
// A step proved with the agent's own signature is filed as signed. A message to a handle, or to
// "anyone", may open a handoff.
//
// The package implements the levels Core and Federation of AIRC v0.1.1, and two optional profiles:
// OpenID Connect accounts, and mutual TLS between registries. It does not implement tenants or DPoP.
//
// Below /api the registry serves deployed clients. They authenticate with a token, and their messages
// are unsigned or have signatures without proof value. The registry signs for them, and marks the
// messages accordingly ("assurance").
//
// # Other registries
//
// "amy@peer.example" is an agent of another registry. Messages to it are queued and sent, in order,
// until that registry accepts them. The sender gets a notice if this fails or takes long. Package peers
// manages the other registries.
//
// A relay signed by its registry may be any step. An unsigned relay is at most a message, from a name that
// begins with "?". It waits until its recipient accepts the name or an operator allows the message. Each of
// two gateways is the home of its own side of a handoff; the IDs of messages connect the sides.
//
// # Webhooks
//
// If an agent registers with the delivery "webhook" and an address, its messages are posted there. A
// posted message counts as fetched.
//
// # State
//
// A [Link] keeps in memory the present agents, recent documents of other registries, and inboxes with
// known free quota; everything else is in the record. Its methods and routes may be called
// concurrently.
//
// A delivered message has an unsigned member seq. To verify the message, remove signature and seq
// first.
//
// spec: airc-v0.1.1 §5-§11
package airc

import (
	"context"
	"crypto/x509"
	_ "embed"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Deps has the dependencies of a registry.
type Deps struct {
	bridge.Ports

	Record   registry.Bound
	Keyring  *identity.Keyring
	Hooks    bridge.Webhooks  // nil for none
	Fetch    *identity.Client // nil if there are no other registries
	Issuer   *identity.Client // unused without an issuer of accounts
	TokenKey []byte           // secret

	// Take counts one message or step of a DID. Above the rate, it returns the wait and counts nothing.
	Take func(did federation.DID, now time.Time) time.Duration
	Left func(did federation.DID, now time.Time) bridge.Allowance
	// Admit returns a [*federation.NewDIDLimitError] for a new DID over the limit. The context has the
	// client's address, see [bridge.WithSubnet].
	Admit func(ctx context.Context, did federation.DID, now time.Time) error
	// Meet records that the DID is known.
	Meet func(ctx context.Context, did federation.DID, now time.Time) error

	Quotas func() Quotas
	// TXT returns no error for an empty result.
	TXT func(ctx context.Context, name string) ([]string, error)
	// Mode returns the operator's mode for another registry, or "". It overrides the configuration.
	Mode func(domain string) string
	// Authenticate accepts the token of any network. It blocks on the record.
	Authenticate func(r *http.Request) (who bridge.Authenticated, ok bool, err error)

	// Authorities holds the authorities of client certificates, by configured file.
	Authorities map[string]*x509.CertPool

	// RunExclusive calls a function while this replica of the home has the lease of the registry, until
	// ctx ends. It is nil if there is one replica.
	RunExclusive func(ctx context.Context, do func(context.Context))

	Logins credential.Addresses
	// Writes counts steps and messages per address, across all listeners.
	Writes credential.Addresses
}

// Quotas are limits that may change while the registry runs.
type Quotas struct {
	Room                 federation.InboxLimits
	FirstContacts        federation.InboxLimits // entries held for one agent until it consents
	RegistrationsPerHour int                    // per address; 0 means no limit
}

// Link is one registry. It implements [bridge.Mounted] and [bridge.Recorder].
type Link struct {
	bridge.Hearing

	cfg        Config
	deps       Deps
	domain     string
	mint       string // "" for none
	challenges credential.Challenges
	tokens     *credential.Tokens

	registrations credential.Addresses
	presences     presences
	nonces        nonces
	peers         *peers.Registries
	grants        grants
	accounts      accounts
	end           sync.Once
	ended         chan struct{} // closed at the end of Run
}

var (
	_ bridge.Mounted  = (*Link)(nil)
	_ bridge.Recorder = (*Link)(nil)
	_ bridge.Hearer   = (*Link)(nil)
	_ bridge.Peered   = (*Link)(nil)

	_ bridge.Authenticator = (*Link)(nil)
	_ bridge.Registrar     = (*Link)(nil)
)

// Open returns a registry. It does no I/O. Its error joins one [*bridge.KeyError] per mistake.
func Open(cfg Config, d Deps) (*Link, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	domain := cfg.Domain
	if domain == "" {
		domain = string(d.Home)
	}
	d.PublicURL = strings.TrimSuffix(d.PublicURL, "/")
	var mint string
	if cfg.MintTokenFile != "" {
		var err error
		if mint, err = d.Secrets.Secret(cfg.MintTokenFile); err != nil {
			return nil, &bridge.KeyError{Key: "mint_token_file", Why: err.Error()}
		}
	}
	l := &Link{
		mint: mint,
		cfg:  cfg, deps: d, domain: domain,
		challenges: credential.NewChallenges(d.TokenKey, wire.Network),
		tokens:     newTokens(d.TokenKey, domain),

		registrations: credential.NewAddresses(func() int { return d.Quotas().RegistrationsPerHour }, time.Hour),
		presences:     newPresences(),
		nonces:        newNonces(),
		grants:        newGrants(),
		accounts:      newAccounts(cfg.OIDC, d.Issuer),
		ended:         make(chan struct{}),
	}
	l.peers = peers.New(peers.Deps{
		Ports: d.Ports, Domain: domain, Federation: cfg.Federation, RequireDNS: cfg.RequireDNS, CAFile: cfg.MTLS.CAFile, Peers: cfg.Peers,
		Record: d.Record, Keyring: d.Keyring, Fetch: d.Fetch, TXT: d.TXT, Mode: d.Mode, Authorities: d.Authorities, Notify: l.notify,
	})
	return l, nil
}

// Peers implements [bridge.Peered].
func (l *Link) Peers() []bridge.Peer { return l.peers.Peers() }

// CheckPeer implements [bridge.Peered].
func (*Link) CheckPeer(name string) error { return peers.CheckPeer(name) }

// Backlogs implements [bridge.Peered].
func (l *Link) Backlogs(ctx context.Context) ([]federation.PeerBacklog, error) {
	return l.peers.Backlogs(ctx)
}

// Domain implements [bridge.Registrar].
func (l *Link) Domain() string { return l.domain }

// Name implements [bridge.Link].
func (*Link) Name() string { return wire.Network }

// Network implements [bridge.Link].
func (*Link) Network() string { return wire.Network }

// Run implements [bridge.Link]. It is up until ctx ends, and sends the pending deliveries to other
// registries.
func (l *Link) Run(ctx context.Context, up func()) error {
	up()
	if l.cfg.Federation != peers.FederationOff && l.deps.Fetch != nil {
		if l.deps.RunExclusive != nil {
			l.deps.RunExclusive(ctx, l.peers.Run)
		} else {
			l.peers.Run(ctx)
		}
	}
	<-ctx.Done()
	l.end.Do(func() { close(l.ended) })
	return context.Cause(ctx)
}

//go:embed reference.toml
var referenceFile string

// Network describes the AIRC registry of the gateway. Its link replaces the ports in deps with its own.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: wire.Network, Table: "airc", Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if !cfg.Enabled {
				return nil, bridge.ErrOff
			}
			deps.Ports = p
			return Open(cfg, deps)
		},
	}
}

// How to treat a step for an agent without consent to its sender.
const (
	// OffersHold holds the step until the agent answers the handshake.
	OffersHold = "hold"
	// OffersDeliver delivers the step at once.
	OffersDeliver = "deliver"
)

// Config is the table [airc] of the configuration.
type Config struct {
	Enabled            bool             `toml:"enabled"`
	Domain             string           `toml:"domain"`              // required "aud"; "" means the name of the home
	Name               string           `toml:"name"`                // display name
	Offers             string           `toml:"offers"`              // [OffersHold] or [OffersDeliver]
	Dialects           []string         `toml:"dialects"`            // "d1" for agents that sign, "d2" for registries, "d3" below /api
	AppendixB          bool             `toml:"appendix_b"`          // accept messages with a nonce but without kid and aud
	Reregister         string           `toml:"reregister"`          // [ReregisterProof] or [ReregisterKeyless]
	MintTokenFile      string           `toml:"mint_token_file"`     // file of the operator's credential; "" for none
	HeaderRegistration string           `toml:"header_registration"` // [HeaderOwn] or [HeaderDeny]
	MaxPayloadBytes    int              `toml:"max_payload_bytes"`
	Federation         string           `toml:"federation"`  // [peers.FederationOff], [peers.FederationAllowlist] or [peers.FederationOpen]
	RequireDNS         bool             `toml:"require_dns"` // also require other registries' keys in DNS
	OIDC               OIDCConfig       `toml:"oidc"`
	MTLS               peers.MTLSConfig `toml:"mtls"`
	Peers              []peers.Config   `toml:"peers"`
}

// DefaultConfig returns the defaults of the table.
func DefaultConfig() Config {
	return Config{Enabled: true, Name: "Baton", Dialects: []string{peers.DialectD1, peers.DialectD2, peers.DialectD3}, Offers: OffersHold, Reregister: ReregisterProof, HeaderRegistration: HeaderOwn, MaxPayloadBytes: 65536, Federation: peers.FederationAllowlist}
}

func (c Config) check() error {
	var mistakes []error
	mistake := func(key, why string) { mistakes = append(mistakes, &bridge.KeyError{Key: key, Why: why}) }
	if c.Domain != "" && (strings.Trim(c.Domain, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || !strings.Contains(c.Domain, ".")) {
		mistake("domain", "want a host name in lower case, such as gw.example")
	}
	if c.Name == "" {
		mistake("name", "want a display name")
	}
	if c.Offers != OffersHold && c.Offers != OffersDeliver {
		mistake("offers", `want "`+OffersHold+`" or "`+OffersDeliver+`"`)
	}
	if c.Reregister != ReregisterProof && c.Reregister != ReregisterKeyless {
		mistake("reregister", `want "`+ReregisterProof+`" or "`+ReregisterKeyless+`"`)
	}
	if c.HeaderRegistration != HeaderOwn && c.HeaderRegistration != HeaderDeny {
		mistake("header_registration", `want "`+HeaderOwn+`" or "`+HeaderDeny+`"`)
	}
	if c.MaxPayloadBytes <= 0 {
		mistake("max_payload_bytes", "want 1 or more")
	}
	for _, dialect := range c.Dialects {
		if dialect != peers.DialectD1 && dialect != peers.DialectD2 && dialect != peers.DialectD3 {
			mistake("dialects", `want some of "`+peers.DialectD1+`", "`+peers.DialectD2+`" and "`+peers.DialectD3+`"`)
		}
	}
	if c.Federation != peers.FederationOff && c.Federation != peers.FederationAllowlist && c.Federation != peers.FederationOpen {
		mistake("federation", `want "`+peers.FederationOff+`", "`+peers.FederationAllowlist+`" or "`+peers.FederationOpen+`"`)
	}
	c.OIDC.check(mistake)
	for _, peer := range c.Peers {
		peer.Check(c.MTLS.CAFile != "", mistake)
	}
	return errors.Join(mistakes...)
}
