package mcp

import (
	_ "embed"

	"baton/bridge"
	"baton/bridge/participant"
)

//go:embed reference.toml
var referenceFile string

// Table is the name of the table [Config].
const Table = "mcp"

// Config is the table [mcp] of the configuration.
type Config struct {
	Enabled bool `toml:"enabled"`
}

// DefaultConfig returns the table as it is where the file says nothing.
func DefaultConfig() Config { return Config{Enabled: true} }

// Network describes MCP over HTTP. Its link gets the ports of each link in the place of those in
// deps. Version is that of the program.
func Network(deps participant.Deps, version string) bridge.Network {
	return bridge.Network{
		Name: network, Table: Table, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if !cfg.Enabled {
				return nil, bridge.ErrOff
			}
			deps.Ports = p
			return Open(deps, version), nil
		},
	}
}
