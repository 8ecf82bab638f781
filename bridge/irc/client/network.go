package client

import (
	_ "embed"

	"baton/bridge"
)

//go:embed reference.toml
var referenceFile string

// Network describes the server for IRC clients. Its link gets the ports of each link in the
// place of those in deps.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "irc.client", Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if !cfg.Enabled() {
				return nil, bridge.ErrOff
			}
			deps.Ports = p
			return Open(cfg, deps)
		},
	}
}
