package freeq

import (
	"context"
	_ "embed"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/store/registry"
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

// Deps has the parts of the gateway that a link to a freeq server needs.
type Deps struct {
	bridge.Ports

	Record *registry.Record
	// Given returns up to limit deliveries that a link made at or after a time, in order: the method of
	// the record. It blocks on that.
	Given   func(ctx context.Context, link string, since time.Time, limit int) ([]federation.Given, error)
	Rulings Rulings
	// Fetch returns the body at an address of the server's web API. Its error wraps
	// [federation.ErrNotFound] if there is nothing, and
	// [*federation.UnavailableError] when asking again may help.
	Fetch func(ctx context.Context, address string) ([]byte, error)
	// Endpoint is the key that this gateway is known by among freeq servers.
	Endpoint federation.SigningKey
	// Seed is the seed of that key in hexadecimal, for the program of the transport.
	Seed string
}

// Rulings is the port to the home of this gateway: which steps it confirms, and the steps
// that wait for the ruling of another home. Methods with a context block on the record.
type Rulings interface {
	// Moves reports whether a step by a verb moves a handoff, so that its home confirms it.
	Moves(v federation.View, verb federation.Verb) bool
	// Role returns the role in a handoff that may take a step with a verb, "" for an unknown verb.
	Role(v federation.View, verb federation.Verb) federation.Role
	// Receipt returns the receipt of a filed step, the same one each time. The view says in
	// which dialect and for which venue.
	Receipt(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error)
	// Settle finishes what the rulings on file bring about in a handoff: a crash may have
	// come after a ruling was filed.
	Settle(ctx context.Context, id federation.HandoffID, now time.Time) error
	// GiveUp ends the wait of a step as refused, and tells its signer.
	GiveUp(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error
	// Ours reports whether a DID belongs to a participant of this gateway that is not on
	// a link. It returns the errors of the record.
	Ours(ctx context.Context, did federation.DID, link string) (bool, error)
	// Endpoint returns the endpoint id of the freeq server that is a home, where this gateway
	// has a link to it, else "". It does not block.
	Endpoint(home federation.HomeID) string
}
