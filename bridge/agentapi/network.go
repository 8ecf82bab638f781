package agentapi

import (
	_ "embed"
	"errors"
	"time"

	"baton/bridge"
)

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
