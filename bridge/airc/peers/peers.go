// Package peers exchanges messages with other AIRC registries. It reads their self-descriptions, verifies
// their signatures, and sends queued messages in order until they are accepted.
//
// A registry signs each relay in the member [SignatureMember]. A signed relay counts in the rate of its
// registry once its signature is verified; an unsigned relay counts in the rate of its address. In open
// federation, registries that no operator named share the rate of their address too.
package peers

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Values of airc.federation: the registries to exchange messages with.
const (
	FederationOff       = "off"
	FederationAllowlist = "allowlist" // configured registries
	FederationOpen      = "open"      // all registries not blocked
)

// Modes of the exchange with a registry.
const (
	ModeAllow = "allow"
	ModeLimit = "limit" // a few messages per minute
	ModeHold  = "hold"  // hold incoming messages for their recipient, regardless of consent
	ModeBlock = "block"
)

// The dialects of a registry: d1 and d2 sign their relays.
const (
	dialectAuto = "auto"
	DialectD1   = "d1"
	DialectD2   = "d2"
	DialectD3   = "d3"
)

// Messages per minute and direction. Deployed registries accept ten, for all handles of a registry
// together.
const (
	DefaultPerMinute  = 60
	limitedPerMinute  = 10
	deployedPerMinute = 9
)

// Cache lifetimes of a self-description, and of a failure to read it.
const (
	wellKnownLife = time.Hour
	silenceLife   = 5 * time.Second
)

// A cached registry takes a few KiB.
const maxPeers = 1024

// SignatureMember has a registry's signature on a document for another registry.
const SignatureMember = "origin_registry_signature"

// Config is one [[airc.peers]] table: another registry.
type Config struct {
	Domain            string `toml:"domain"`
	Mode              string `toml:"mode"`                // [ModeAllow] (default), [ModeLimit], [ModeHold] or [ModeBlock]
	Dialect           string `toml:"dialect"`             // "auto" (default), "d1", "d2" or "d3"
	URL               string `toml:"url"`                 // default: https:// and the domain
	PublicKey         string `toml:"public_key"`          // pinned key in base64url; default: the key in its well-known document
	Unsigned          string `toml:"unsigned"`            // "hold" (default) or "allow" unsigned relays
	MessagesPerMinute int    `toml:"messages_per_minute"` // to the registry; 0 means the advertised rate

	// Requirements for an allowed unsigned relay: an address in Networks, in CIDR form, and a
	// certificate for Domain issued by an authority in the file ClientCA. At least one of the two must
	// be set unless all registries present certificates.
	Networks []string `toml:"networks"`
	ClientCA string   `toml:"client_ca"`
}

// Check reports the mistakes of a peer; mutual means that all registries present certificates.
func (p Config) Check(mutual bool, mistake func(key, why string)) {
	one := func(key, value string, of ...string) {
		if value != "" && !slices.Contains(of, value) {
			mistake("peers."+key, fmt.Sprintf("%s: want one of %s", p.Domain, strings.Join(of, ", ")))
		}
	}
	if !wire.ValidDomain(p.Domain) {
		mistake("peers.domain", "want a host name in lower case, such as peer.example")
	}
	one("mode", p.Mode, ModeAllow, ModeLimit, ModeHold, ModeBlock)
	one("dialect", p.Dialect, dialectAuto, DialectD1, DialectD2, DialectD3)
	one("unsigned", p.Unsigned, ModeHold, ModeAllow)
	if p.Unsigned == ModeAllow && len(p.Networks) == 0 && p.ClientCA == "" && !mutual {
		mistake("peers.unsigned", p.Domain+`: "allow" needs networks = ["192.0.2.0/24"], the addresses that it relays from, or client_ca: any host can name it in an unsigned relay`)
	}
	for _, text := range p.Networks {
		if network, err := netip.ParsePrefix(text); err != nil || network.Bits() == 0 {
			mistake("peers.networks", p.Domain+": want networks such as 192.0.2.0/24 or 2001:db8::/48, not "+strconv.Quote(text))
		}
	}
	if p.MessagesPerMinute < 0 {
		mistake("peers.messages_per_minute", p.Domain+": want 0 or more")
	}
	if _, err := wire.ParsePublicKey(p.PublicKey); p.PublicKey != "" && err != nil {
		mistake("peers.public_key", p.Domain+": want an Ed25519 key in base64url")
	}
	if p.URL != "" && federation.CheckBaseURL(p.URL) != nil {
		mistake("peers.url", p.Domain+": want https:// and a host")
	}
}

// trusts returns the policy by which unsigned relays count as sent by their registry, or "".
func (p Config) trusts() string {
	if p.Unsigned != ModeAllow {
		return ""
	}
	var by []string
	if len(p.Networks) > 0 {
		by = append(by, "from "+strings.Join(p.Networks, ", "))
	}
	if p.ClientCA != "" {
		by = append(by, "with a certificate of "+p.ClientCA)
	}
	return cmp.Or(strings.Join(by, ", "), "with a certificate for "+p.Domain)
}

// within is true if no networks are configured.
func (p Config) within(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return len(p.Networks) == 0 || err == nil && slices.ContainsFunc(p.Networks, func(text string) bool {
		network, err := netip.ParsePrefix(text)
		return err == nil && network.Contains(from.Addr().Unmap().WithZone(""))
	})
}

type wellKnown struct {
	Protocol        string `json:"protocol"`
	ProtocolVersion string `json:"protocol_version"`
	PublicKey       string `json:"public_key"`
	Federation      struct {
		RelayEndpoint     string `json:"relay_endpoint"`
		Relay             string `json:"relay"`
		DiscoveryEndpoint string `json:"discovery_endpoint"`
	} `json:"federation"`
	Versions map[string]struct {
		Endpoints struct {
			Presence string `json:"presence"`
		} `json:"endpoints"`
	} `json:"versions"`
	RateLimits struct {
		MessagesPerMinute int `json:"messages_per_minute"`
	} `json:"rate_limits"`
}

// Peer is the current state of another registry.
type Peer struct {
	Config

	base    string
	paths   endpoints
	key     ed25519.PublicKey // nil if not published
	dialect string
	perMin  int
	fetched time.Time
	err     error // from reading its description
}

// Deps has the dependencies of [Registries].
type Deps struct {
	bridge.Ports

	Domain     string // of this registry
	Federation string
	RequireDNS bool
	CAFile     string // certify all registries; "" for none
	Peers      []Config

	Record  registry.Bound
	Keyring *identity.Keyring // contains the key of this registry
	Fetch   *identity.Client  // nil without any exchange

	// TXT returns no error for an empty result.
	TXT func(ctx context.Context, name string) ([]string, error)
	// Mode returns the operator's mode for a registry, or "". It overrides the configuration.
	Mode func(domain string) string
	// Authorities has the authorities of client certificates, by configured file.
	Authorities map[string]*x509.CertPool
	// Notify reports the result of a queued message to its sender, once.
	Notify func(ctx context.Context, row federation.PeerDelivery, notice, reason string, now time.Time) error
}

// Registries are the other registries, with their policies, descriptions and queues. It is safe for
// concurrent use.
type Registries struct {
	deps     Deps
	unproven unproven
	found    found

	known chan map[string]Peer // owned by the goroutine that receives it, until it sends it back
	rates chan map[string]*rate.Limiter
	paces chan map[string]*pace
	heard chan string // registries that sent a message
}

type pace struct {
	*delivery.Pace
	perMinute int
}

// New returns the other registries. It does no I/O.
func New(d Deps) *Registries {
	ps := &Registries{
		deps: d, unproven: newUnproven(), found: newFound(),
		known: make(chan map[string]Peer, 1), rates: make(chan map[string]*rate.Limiter, 1), paces: make(chan map[string]*pace, 1),
		heard: make(chan string, 16), // a dropped entry is added by the next message
	}
	ps.known <- map[string]Peer{}
	ps.paces <- map[string]*pace{}
	ps.rates <- map[string]*rate.Limiter{}
	return ps
}

// Exchanges returns the configuration of a registry, and whether messages are exchanged with it.
func (ps *Registries) Exchanges(domain string) (Config, bool) {
	cfg := Config{Domain: domain}
	for _, one := range ps.deps.Peers {
		if one.Domain == domain {
			cfg = one
		}
	}
	cfg.Mode = cmp.Or(ps.deps.Mode(domain), cfg.Mode)
	cfg.Mode, cfg.Dialect = cmp.Or(cfg.Mode, ModeAllow), cmp.Or(cfg.Dialect, dialectAuto)
	cfg.Unsigned, cfg.URL = cmp.Or(cfg.Unsigned, ModeHold), cmp.Or(cfg.URL, federation.BaseURL(domain))
	switch {
	case ps.deps.Fetch == nil, cfg.Mode == ModeBlock, domain == ps.deps.Domain:
		return cfg, false
	case ps.deps.Federation == FederationOpen:
		return cfg, true
	}
	return cfg, ps.Configured(domain) && ps.deps.Federation == FederationAllowlist
}

// Configured reports whether an operator named a registry, in the configuration or at run time.
func (ps *Registries) Configured(domain string) bool {
	return ps.deps.Mode(domain) != "" || slices.ContainsFunc(ps.deps.Peers, func(p Config) bool { return p.Domain == domain })
}

// Peers returns the configured registries.
func (ps *Registries) Peers() []bridge.Peer {
	peers := make([]bridge.Peer, len(ps.deps.Peers))
	for i, p := range ps.deps.Peers {
		peers[i] = bridge.Peer{
			Name: p.Domain, URL: cmp.Or(p.URL, federation.BaseURL(p.Domain)), Mode: cmp.Or(p.Mode, ModeAllow), Dialect: p.Dialect,
			Unsigned: p.trusts(),
		}
	}
	return peers
}

// CheckPeer rejects any name other than the domain of a registry.
func CheckPeer(name string) error {
	if !wire.ValidDomain(name) {
		return errors.New("the domain of a registry such as peer.example, not " + name)
	}
	return nil
}

// peer wraps [*federation.UnavailableError] if the registry cannot be reached now.
func (ps *Registries) peer(ctx context.Context, domain string, now time.Time) (Peer, error) {
	cfg, federated := ps.Exchanges(domain)
	if !federated {
		return Peer{}, ErrBlocked()
	}
	if p, fresh := ps.remembered(domain, now); fresh {
		return p, p.err
	}
	return ps.discover(ctx, cfg, now)
}

func (ps *Registries) remembered(domain string, now time.Time) (Peer, bool) {
	known := <-ps.known
	one, found := known[domain]
	ps.known <- known
	life := wellKnownLife
	if one.err != nil {
		life = silenceLife
	}
	return one, found && now.Before(one.fetched.Add(life))
}

func (ps *Registries) discover(ctx context.Context, cfg Config, now time.Time) (Peer, error) {
	p := Peer{Config: cfg, base: cfg.URL, fetched: now}
	p.err = ps.describe(ctx, &p)
	if ctx.Err() != nil {
		return p, p.err
	}
	ps.noteUnusable(ctx, cfg.Domain, p.err)
	known := <-ps.known
	if old, found := known[cfg.Domain]; found && old.err == nil && p.err != nil {
		p = old // keep the old description while the registry is unreachable
		p.fetched = now.Add(silenceLife - wellKnownLife)
	}
	if len(known) >= maxPeers {
		clear(known)
	}
	known[cfg.Domain] = p
	ps.known <- known
	return p, p.err
}

func (ps *Registries) describe(ctx context.Context, p *Peer) error {
	address, err := p.at(wellKnownPath, nil)
	if err != nil {
		return err
	}
	text, err := ps.deps.Fetch.Get(ctx, address)
	if err != nil {
		return &federation.UnavailableError{What: "registry " + p.Domain, Err: err}
	}
	var doc wellKnown
	if federation.ExactJSON(text) != nil || federation.DecodeJSON(text, &doc) != nil || doc.Protocol == "" && doc.ProtocolVersion == "" {
		return useless(p.Domain, unusableJSON, "its well-known document is invalid")
	}
	if text := cmp.Or(p.PublicKey, doc.PublicKey); text != "" {
		if p.key, err = wire.ParsePublicKey(text); err != nil {
			return useless(p.Domain, unusableKey, "its key cannot be read")
		}
	}
	if p.paths, err = parseEndpoints(p.Domain, doc); err != nil {
		return err
	}
	p.dialect = p.Dialect
	if p.dialect == dialectAuto {
		p.dialect = DialectD2
		if p.key == nil {
			p.dialect = DialectD3
		}
	}
	p.perMin = cmp.Or(p.MessagesPerMinute, p.pace(doc))
	return ps.checkDNS(ctx, *p)
}

func (p Peer) pace(doc wellKnown) int {
	switch {
	case p.Mode == ModeLimit:
		return limitedPerMinute
	case p.dialect == DialectD3:
		return deployedPerMinute
	}
	return cmp.Or(max(0, doc.RateLimits.MessagesPerMinute), DefaultPerMinute)
}

func (ps *Registries) checkDNS(ctx context.Context, p Peer) error {
	if !ps.deps.RequireDNS || p.key == nil {
		return nil
	}
	texts, err := ps.deps.TXT(ctx, "_airc."+p.Domain)
	if err != nil {
		return &federation.UnavailableError{What: "DNS of " + p.Domain, Err: err}
	}
	for _, text := range texts {
		fields := strings.Fields(text)
		if slices.Contains(fields, "v=airc1") && slices.Contains(fields, "pk="+wire.KeyText(p.key)) {
			return nil
		}
	}
	return useless(p.Domain, unusableKey, "its key is not in DNS")
}

func (ps *Registries) pace(domain string, perMinute int) *delivery.Pace {
	all := <-ps.paces
	defer func() { ps.paces <- all }()
	known := all[domain]
	if known == nil || known.perMinute != perMinute {
		if len(all) >= maxPeers {
			clear(all)
		}
		known = &pace{Pace: delivery.NewPace(perMinute), perMinute: perMinute}
		all[domain] = known
	}
	return known.Pace
}

// Heard records that a registry sent a message, and so may accept its queued messages. It does not block.
func (ps *Registries) Heard(domain string) {
	select {
	case ps.heard <- domain:
	default:
	}
}

func (ps *Registries) limiter(name string, perMinute int) *rate.Limiter {
	all := <-ps.rates
	defer func() { ps.rates <- all }()
	limiter := all[name]
	if limiter == nil || limiter.Burst() != perMinute {
		if len(all) >= 2*maxPeers {
			clear(all)
		}
		limiter = rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)
		all[name] = limiter
	}
	return limiter
}

// ErrBlocked refuses a registry without an exchange of messages.
func ErrBlocked() error {
	return wire.Refuse(wire.CodeFederationBlocked, "no messages are exchanged with this registry")
}

func (p Peer) signed(message []byte, signature string) bool {
	if p.key == nil {
		return false
	}
	verdict, err := signing.Relay().Verify(message, signature, p.key)
	return err == nil && verdict == federation.Valid
}

func (ps *Registries) sign(ctx context.Context, message map[string]json.RawMessage) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("write for other registries: %w", err)
	}
	signature, _, err := signing.Relay().Sign(ctx, ps.deps.Keyring.Registry(), text)
	if err != nil {
		return nil, fmt.Errorf("sign for other registries: %w", err)
	}
	message[SignatureMember] = wire.JSONString(signature)
	if text, err = json.Marshal(message); err != nil {
		return nil, fmt.Errorf("write for other registries: %w", err)
	}
	return text, nil
}

// AgentKeys fetches the keys of an agent from its registry.
func (ps *Registries) AgentKeys(ctx context.Context, p Peer, handle string) ([]agents.Key, error) {
	text, err := ps.ask(ctx, p, agentPath.Join(handle), nil)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Keys []wire.Key `json:"keys"`
	}
	if err := federation.DecodeJSON(text, &doc); err != nil {
		return nil, fmt.Errorf("read identity of %s at %s: %w", handle, p.Domain, err)
	}
	var keys []agents.Key
	for _, key := range doc.Keys {
		public, err := wire.ParseStrictKey("publicKey", key.Public)
		signs := key.Status == agents.KeyStatusActive || key.Status == agents.KeyStatusPending
		if err == nil && signs && len(keys) < agents.MaxKeys {
			keys = append(keys, agents.Key{ID: key.ID, Public: public})
		}
	}
	return keys, nil
}
