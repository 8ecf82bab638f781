package spanningtree

import (
	_ "embed"

	"baton/bridge"
	"baton/federation/store/registry"
)

//go:embed reference.toml
var referenceFile string

// Network describes InspIRCd networks. Their users list and find handoffs by command.
func Network(record *registry.Record) bridge.Network {
	return bridge.Network{
		Name: network, Table: "irc.spanningtree", Many: true, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg := DefaultConfig()
			t.Decode(&cfg)
			return Open(cfg, Deps{Ports: p, Record: record})
		},
	}
}
