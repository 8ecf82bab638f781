package freeq

import (
	_ "embed"

	"baton/bridge"
	"baton/federation"
)

//go:embed reference.toml
var referenceFile string

// Network describes freeq servers. The endpoint returns the key by which this gateway is known
// among freeq servers, and its seed in hexadecimal for the program of the transport; nil, where
// only a configuration is checked.
func Network(deps Deps, endpoint func() (key federation.SigningKey, seed string, err error)) bridge.Network {
	return bridge.Network{
		Name: network, Table: "irc.freeq", Many: true, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg, deps := DefaultConfig(), deps
			t.Decode(&cfg)
			if endpoint != nil {
				var err error
				if deps.Endpoint, deps.Seed, err = endpoint(); err != nil {
					return nil, err
				}
			}
			deps.Ports = p
			return Open(cfg, deps)
		},
	}
}
