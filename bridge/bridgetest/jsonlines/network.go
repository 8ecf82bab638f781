// Package jsonlines is the example network of CONTRIBUTING.md. It transfers handoffs in both
// directions as lines of JSON over TCP. Only tests use it.
//
// The operator trusts the peer with the names on its side, and binds each name to a DID, with
// vouch. The peer writes steps, and gets one answer to each:
//
//	{"id":"01K9ZQ0000000000000000000H","verb":"offer","from":"ada","to":"did:key:z6Mk…","title":"review it"}
//	{"id":"01K9ZQ0000000000000000000H","filed":true}
//
// The link writes the steps of handoffs with a party named on the peer. The peer answers each step
// after it has stored the step:
//
//	{"id":"01K9ZQ0000000000000000001A","handoff":"01K9ZQ0000000000000000000H","verb":"accept","from":"did:key:z6Mk…"}
//	{"id":"01K9ZQ0000000000000000001A","taken":true}
package jsonlines

import (
	_ "embed"
	"errors"
	"log/slog"
	"net"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation/store/registry"
)

//go:embed reference.toml
var referenceFile string

const network = "jsonlines"

// Config is one [[jsonlines]] table.
type Config struct {
	Name    string `toml:"name"`    // unique among all links
	Address string `toml:"address"` // host:port of the peer
}

// Network describes programs that speak JSON lines. The record is that of the gateway; the zero one
// suffices to check a configuration.
func Network(record registry.Bound) bridge.Network {
	return bridge.Network{
		Name: network, Table: "jsonlines", Many: true, Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			var cfg Config
			t.Decode(&cfg)
			if err := cfg.check(); err != nil {
				return nil, err
			}
			log := p.Log.With(slog.String("network", network), slog.String("link", cfg.Name))
			steps := stepbuilder.Builder{
				Network: network, Link: cfg.Name, Home: p.Home, Gateway: p.Gateway, Record: record,
				Signer: p.Signer, Evidence: p.Evidence, Bindings: p.Bindings, PublicURL: p.PublicURL,
			}
			return &Link{cfg: cfg, ports: p, steps: steps, log: log, out: make(chan delivery)}, nil
		},
	}
}

func (c Config) check() error {
	var mistakes []error
	if c.Name == "" {
		mistakes = append(mistakes, &bridge.KeyError{Key: "name", Why: "is required"})
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		mistakes = append(mistakes, &bridge.KeyError{Key: "address", Why: `want "host:port" of the peer`})
	}
	return errors.Join(mistakes...)
}
