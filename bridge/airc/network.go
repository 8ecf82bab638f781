package airc

import (
	_ "embed"

	"baton/bridge"
)

//go:embed reference.toml
var referenceFile string

// Network describes the AIRC registry of the gateway. Its link gets the ports of each link in
// the place of those in deps.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "airc", Reference: referenceFile,
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
