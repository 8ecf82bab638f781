package a2a

import (
	_ "embed"

	"baton/bridge"
)

//go:embed reference.toml
var referenceFile string

// Table is the name of the table [Config].
const Table = "a2a"

// Config is the table [a2a] of the configuration.
type Config struct {
	Enabled bool `toml:"enabled"`
}

// DefaultConfig returns the table as it is where the file says nothing.
func DefaultConfig() Config { return Config{Enabled: true} }

// Network describes the cards and tasks of A2A. Its link gets the ports of each link in the place
// of those in deps.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: Table, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if !cfg.Enabled {
				return nil, bridge.ErrOff
			}
			deps.Ports = p
			return Open(deps)
		},
	}
}
