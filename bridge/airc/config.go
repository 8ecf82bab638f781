package airc

import (
	"errors"
	"strings"

	"baton/bridge"
)

// What becomes of a step for an agent that has not accepted its sender.
const (
	// OffersHold keeps it back until the agent answers the handshake.
	OffersHold = "hold"
	// OffersDeliver delivers it at once.
	OffersDeliver = "deliver"
)

// Config is the table [airc] of the configuration.
type Config struct {
	Enabled            bool         `toml:"enabled"`
	Domain             string       `toml:"domain"`              // what "aud" must name; empty means the name of the home
	Name               string       `toml:"name"`                // display name
	Offers             string       `toml:"offers"`              // [OffersHold] or [OffersDeliver]
	Dialects           []string     `toml:"dialects"`            // "d1" for agents that sign, "d2" for registries, "d3" below /api
	AppendixB          bool         `toml:"appendix_b"`          // accept messages with a nonce but without kid and aud
	Reregister         string       `toml:"reregister"`          // [ReregisterProof] or [ReregisterKeyless]
	MintTokenFile      string       `toml:"mint_token_file"`     // the operator's credential; empty for none
	HeaderRegistration string       `toml:"header_registration"` // [HeaderOwn] or [HeaderDeny]
	MaxPayloadBytes    int          `toml:"max_payload_bytes"`
	Federation         string       `toml:"federation"`  // [FederationOff], [FederationAllowlist] or [FederationOpen]
	RequireDNS         bool         `toml:"require_dns"` // the key of another registry must be in DNS too
	OIDC               OIDCConfig   `toml:"oidc"`
	MTLS               MTLSConfig   `toml:"mtls"`
	Peers              []PeerConfig `toml:"peers"`
}

// DefaultConfig returns the table as it is when the file does not name it.
func DefaultConfig() Config {
	return Config{Enabled: true, Name: "Baton", Dialects: []string{dialectD1, dialectD2, dialectD3}, Offers: OffersHold, Reregister: ReregisterProof, HeaderRegistration: HeaderOwn, MaxPayloadBytes: 65536, Federation: FederationAllowlist}
}

// check returns all mistakes, each a [*bridge.KeyError], joined.
func (c Config) check() error {
	var mistakes []error
	mistake := func(key, why string) { mistakes = append(mistakes, &bridge.KeyError{Key: key, Why: why}) }
	if c.Domain != "" && (strings.Trim(c.Domain, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || !strings.Contains(c.Domain, ".")) {
		mistake("domain", "want a host name in lower case, such as gw.example")
	}
	if c.Name == "" {
		mistake("name", "want a name for people")
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
		if dialect != dialectD1 && dialect != dialectD2 && dialect != dialectD3 {
			mistake("dialects", `want some of "`+dialectD1+`", "`+dialectD2+`" and "`+dialectD3+`"`)
		}
	}
	if c.Federation != FederationOff && c.Federation != FederationAllowlist && c.Federation != FederationOpen {
		mistake("federation", `want "`+FederationOff+`", "`+FederationAllowlist+`" or "`+FederationOpen+`"`)
	}
	c.OIDC.check(mistake)
	for _, peer := range c.Peers {
		peer.check(c.MTLS.CAFile != "", mistake)
	}
	return errors.Join(mistakes...)
}
