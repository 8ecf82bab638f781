package airc

import (
	"cmp"
	"context"
	"crypto/ed25519"
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

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// Values of airc.federation: the registries that this one exchanges messages with.
const (
	FederationOff       = "off"
	FederationAllowlist = "allowlist" // the registries of the configuration
	FederationOpen      = "open"      // every registry that is not blocked
)

// What may come from another registry, and go to it.
const (
	ModeAllow = "allow"
	ModeLimit = "limit" // few a minute
	ModeHold  = "hold"  // what comes waits for its recipient, whatever it consented to
	ModeBlock = "block"
)

// The dialects of a registry: d1 and d2 sign what they relay.
const (
	dialectAuto = "auto"
	dialectD1   = "d1"
	dialectD2   = "d2"
	dialectD3   = "d3"
)

// How many messages a minute go each way where nothing else is said. Deployed
// registries take ten, of all handles of a registry together.
const (
	defaultPerMinute  = 60
	limitedPerMinute  = 10
	deployedPerMinute = 9
)

// How long is remembered what a registry says of itself, and that it said nothing.
const (
	wellKnownLife = time.Hour
	silenceLife   = 5 * time.Second
)

// maxPeers bounds the registries that are remembered, a few KiB each.
const maxPeers = 1024

// signatureMember is where a registry signs what it sends to another.
const signatureMember = "origin_registry_signature"

// PeerConfig is a table [[airc.peers]] of the configuration: one other registry.
type PeerConfig struct {
	Domain            string `toml:"domain"`
	Mode              string `toml:"mode"`                // [ModeAllow], [ModeLimit], [ModeHold] or [ModeBlock]; empty is the first
	Dialect           string `toml:"dialect"`             // "auto", "d1", "d2" or "d3"; empty is the first
	URL               string `toml:"url"`                 // empty is https:// and the domain
	PublicKey         string `toml:"public_key"`          // pins it, base64url; empty is that of its well-known document
	Unsigned          string `toml:"unsigned"`            // "hold" or "allow" what it did not sign; empty is the first
	MessagesPerMinute int    `toml:"messages_per_minute"` // to it; 0 is what it advertises

	// Requirements for an allowed unsigned relay: an address in Networks, in CIDR form, and a
	// certificate for Domain issued by an authority in the file ClientCA. One of the two is
	// required unless all registries present certificates.
	Networks []string `toml:"networks"`
	ClientCA string   `toml:"client_ca"`
}

// check reports the mistakes of a peer. With mutual, all registries present certificates.
func (p PeerConfig) check(mutual bool, mistake func(key, why string)) {
	one := func(key, value string, of ...string) {
		if value != "" && !slices.Contains(of, value) {
			mistake("peers."+key, fmt.Sprintf("%s: want one of %s", p.Domain, strings.Join(of, ", ")))
		}
	}
	if !ValidDomain(p.Domain) {
		mistake("peers.domain", "want a host name in lower case, such as peer.example")
	}
	one("mode", p.Mode, ModeAllow, ModeLimit, ModeHold, ModeBlock)
	one("dialect", p.Dialect, dialectAuto, dialectD1, dialectD2, dialectD3)
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
	if _, err := parsePublicKey(p.PublicKey); p.PublicKey != "" && err != nil {
		mistake("peers.public_key", p.Domain+": want an Ed25519 key in base64url")
	}
	if p.URL != "" && federation.CheckBaseURL(p.URL) != nil {
		mistake("peers.url", p.Domain+": want https:// and a host")
	}
}

// trusts returns the policy by which unsigned relays count as from their registry, "" for none.
func (p PeerConfig) trusts() string {
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

// within reports whether a request came from an address in the registry's networks, or from any
// address if it has none.
func (p PeerConfig) within(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return len(p.Networks) == 0 || err == nil && slices.ContainsFunc(p.Networks, func(text string) bool {
		network, err := netip.ParsePrefix(text)
		return err == nil && network.Contains(from.Addr().Unmap().WithZone(""))
	})
}

// wellKnown is what is read of a registry's document about itself.
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

// peer is another registry as it is known now.
type peer struct {
	PeerConfig

	base    string
	paths   endpoints
	key     ed25519.PublicKey // nil where it publishes none
	dialect string
	perMin  int
	fetched time.Time
	err     error // why nothing is known of it
}

// peers is what is known of other registries. A restart forgets it.
type peers struct {
	known chan map[string]peer // owned by the goroutine that receives it, until it sends it back
	rates chan map[string]*rate.Limiter
	paces chan map[string]*pace
	heard chan string // domains of registries that something came from
}

// pace is how fast one registry takes messages, with what it advertised.
type pace struct {
	*bridge.Pace
	perMinute int
}

func newPeers() peers {
	p := peers{
		known: make(chan map[string]peer, 1), rates: make(chan map[string]*rate.Limiter, 1), paces: make(chan map[string]*pace, 1),
		heard: make(chan string, 16), // one that is not noted is heard again
	}
	p.known <- map[string]peer{}
	p.paces <- map[string]*pace{}
	p.rates <- map[string]*rate.Limiter{}
	return p
}

// peerConfig returns what the configuration says of a registry, and whether messages
// are exchanged with it at all.
func (l *Link) peerConfig(domain string) (PeerConfig, bool) {
	cfg := PeerConfig{Domain: domain}
	for _, one := range l.cfg.Peers {
		if one.Domain == domain {
			cfg = one
		}
	}
	cfg.Mode = cmp.Or(l.deps.Mode(domain), cfg.Mode)
	cfg.Mode, cfg.Dialect = cmp.Or(cfg.Mode, ModeAllow), cmp.Or(cfg.Dialect, dialectAuto)
	cfg.Unsigned, cfg.URL = cmp.Or(cfg.Unsigned, ModeHold), cmp.Or(cfg.URL, federation.BaseURL(domain))
	switch {
	case l.deps.Fetch == nil, cfg.Mode == ModeBlock, domain == l.domain:
		return cfg, false
	case l.cfg.Federation == FederationOpen:
		return cfg, true
	}
	return cfg, l.configured(domain) && l.cfg.Federation == FederationAllowlist
}

// configured reports whether an operator named a registry, in the configuration or while
// the gateway runs.
func (l *Link) configured(domain string) bool {
	return l.deps.Mode(domain) != "" || slices.ContainsFunc(l.cfg.Peers, func(p PeerConfig) bool { return p.Domain == domain })
}

// Peers implements [bridge.Peered].
func (l *Link) Peers() []bridge.Peer {
	peers := make([]bridge.Peer, len(l.cfg.Peers))
	for i, p := range l.cfg.Peers {
		peers[i] = bridge.Peer{
			Name: p.Domain, URL: cmp.Or(p.URL, federation.BaseURL(p.Domain)), Mode: cmp.Or(p.Mode, ModeAllow), Dialect: p.Dialect,
			Unsigned: p.trusts(),
		}
	}
	return peers
}

// CheckPeer implements [bridge.Peered].
func (*Link) CheckPeer(name string) error {
	if !ValidDomain(name) {
		return errors.New("the domain of a registry such as peer.example, not " + name)
	}
	return nil
}

// peer returns what another registry says of itself. Its error wraps
// [*federation.UnavailableError] where it cannot be asked now.
func (l *Link) peer(ctx context.Context, domain string, now time.Time) (peer, error) {
	cfg, federated := l.peerConfig(domain)
	if !federated {
		return peer{}, errBlocked()
	}
	if p, fresh := l.peers.remembered(domain, now); fresh {
		return p, p.err
	}
	return l.discover(ctx, cfg, now)
}

// remembered returns what a registry said of itself, and whether that is recent enough.
func (p peers) remembered(domain string, now time.Time) (peer, bool) {
	known := <-p.known
	one, found := known[domain]
	p.known <- known
	life := wellKnownLife
	if one.err != nil {
		life = silenceLife
	}
	return one, found && now.Before(one.fetched.Add(life))
}

// discover asks a registry about itself, and remembers the answer.
func (l *Link) discover(ctx context.Context, cfg PeerConfig, now time.Time) (peer, error) {
	p := peer{PeerConfig: cfg, base: cfg.URL, fetched: now}
	p.err = l.describe(ctx, &p)
	if ctx.Err() != nil {
		return p, p.err
	}
	l.noteUnusable(ctx, cfg.Domain, p.err)
	known := <-l.peers.known
	if old, found := known[cfg.Domain]; found && old.err == nil && p.err != nil {
		p = old // what it said before stands while it is away
		p.fetched = now.Add(silenceLife - wellKnownLife)
	}
	if len(known) >= maxPeers {
		clear(known)
	}
	known[cfg.Domain] = p
	l.peers.known <- known
	return p, p.err
}

// describe fills in what a registry's well-known document says of it.
func (l *Link) describe(ctx context.Context, p *peer) error {
	address, err := p.at(wellKnownPath, nil)
	if err != nil {
		return err
	}
	text, err := l.deps.Fetch.Get(ctx, address)
	if err != nil {
		return &federation.UnavailableError{What: "registry " + p.Domain, Err: err}
	}
	var doc wellKnown
	if err := readDocument(text, &doc); err != nil || doc.Protocol == "" && doc.ProtocolVersion == "" {
		return useless(p.Domain, unusableJSON, "its well-known document is none")
	}
	if text := cmp.Or(p.PublicKey, doc.PublicKey); text != "" {
		if p.key, err = parsePublicKey(text); err != nil {
			return useless(p.Domain, unusableKey, "its key cannot be read")
		}
	}
	if p.paths, err = parseEndpoints(p.Domain, doc); err != nil {
		return err
	}
	p.dialect = p.Dialect
	if p.dialect == dialectAuto {
		p.dialect = dialectD2
		if p.key == nil {
			p.dialect = dialectD3
		}
	}
	p.perMin = cmp.Or(p.MessagesPerMinute, p.pace(doc))
	return l.checkDNS(ctx, *p)
}

// pace returns how many messages a minute a registry takes.
func (p peer) pace(doc wellKnown) int {
	switch {
	case p.Mode == ModeLimit:
		return limitedPerMinute
	case p.dialect == dialectD3:
		return deployedPerMinute
	}
	return cmp.Or(max(0, doc.RateLimits.MessagesPerMinute), defaultPerMinute)
}

// checkDNS holds the key of a registry to the one in DNS, where that is required.
func (l *Link) checkDNS(ctx context.Context, p peer) error {
	if !l.cfg.RequireDNS || p.key == nil {
		return nil
	}
	texts, err := l.deps.TXT(ctx, "_airc."+p.Domain)
	if err != nil {
		return &federation.UnavailableError{What: "DNS of " + p.Domain, Err: err}
	}
	for _, text := range texts {
		fields := strings.Fields(text)
		if slices.Contains(fields, "v=airc1") && slices.Contains(fields, "pk="+registryKeyText(p.key)) {
			return nil
		}
	}
	return useless(p.Domain, unusableKey, "its key is not in DNS")
}

// pace returns how fast a registry takes messages.
func (p peers) pace(domain string, perMinute int) *bridge.Pace {
	all := <-p.paces
	defer func() { p.paces <- all }()
	known := all[domain]
	if known == nil || known.perMinute != perMinute {
		if len(all) >= maxPeers {
			clear(all)
		}
		known = &pace{Pace: bridge.NewPace(perMinute), perMinute: perMinute}
		all[domain] = known
	}
	return known.Pace
}

// note says that something came from a registry: it may take what waits for it. It does
// not block.
func (p peers) note(domain string) {
	select {
	case p.heard <- domain:
	default:
	}
}

// limiter returns the bucket of what comes from a registry.
func (p peers) limiter(name string, perMinute int) *rate.Limiter {
	all := <-p.rates
	defer func() { p.rates <- all }()
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

// errBlocked says that no messages are exchanged with a registry.
func errBlocked() error {
	return refuse(codeFederationBlocked, "no messages are exchanged with this registry")
}

// signed reports whether a registry signed a message.
func (p peer) signed(message []byte, signature string) bool {
	if p.key == nil {
		return false
	}
	verdict, err := signing.Relay().Verify(message, signature, p.key)
	return err == nil && verdict == federation.Valid
}

// signForPeers returns a message with the signature of this registry.
func (l *Link) signForPeers(ctx context.Context, message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("write for other registries: %w", err)
	}
	signature, _, err := signing.Relay().Sign(ctx, l.deps.Keyring.Registry(), text)
	if err != nil {
		return nil, fmt.Errorf("sign for other registries: %w", err)
	}
	var all map[string]json.RawMessage
	if err := federation.DecodeJSON(text, &all); err != nil {
		return nil, fmt.Errorf("write for other registries: %w", err)
	}
	all[signatureMember] = jsonString(signature)
	if text, err = json.Marshal(all); err != nil {
		return nil, fmt.Errorf("write for other registries: %w", err)
	}
	return text, nil
}

// agentKeys asks a registry for the keys of one of its agents.
func (l *Link) agentKeys(ctx context.Context, p peer, handle string) ([]agents.Key, error) {
	text, err := l.ask(ctx, p, agentPath.Join(handle), nil)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Keys []identityKey `json:"keys"`
	}
	if err := federation.DecodeJSON(text, &doc); err != nil {
		return nil, fmt.Errorf("read identity of %s at %s: %w", handle, p.Domain, err)
	}
	var keys []agents.Key
	for _, key := range doc.Keys {
		public, err := parseStrictKey("publicKey", key.Public)
		signs := key.Status == agents.KeyStatusActive || key.Status == agents.KeyStatusPending
		if err == nil && signs && len(keys) < agents.MaxKeys {
			keys = append(keys, agents.Key{ID: key.ID, Public: public})
		}
	}
	return keys, nil
}
