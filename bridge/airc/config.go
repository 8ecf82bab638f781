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
	Enabled         bool   `toml:"enabled"`
	Domain          string `toml:"domain"` // what "aud" must name; empty means the name of the home
	Name            string `toml:"name"`   // for people
	Offers          string `toml:"offers"` // [OffersHold] or [OffersDeliver]
	MaxPayloadBytes int    `toml:"max_payload_bytes"`
}

// DefaultConfig returns the table as it is when the file does not name it.
func DefaultConfig() Config {
	return Config{Enabled: true, Name: "Baton", Offers: OffersHold, MaxPayloadBytes: 65536}
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
	if c.MaxPayloadBytes <= 0 {
		mistake("max_payload_bytes", "want 1 or more")
	}
	return errors.Join(mistakes...)
}
