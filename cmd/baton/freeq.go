package main

import (
	"context"
	"time"

	"baton/bridge/gateway"
	"baton/bridge/irc/freeq"
	"baton/configs"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/identity"
)

// freeqTable is the name of the tables of links to freeq servers.
const freeqTable = "irc.freeq"

func openFreeq(t configs.Table, w wiring) (gateway.Entry, error) {
	cfg := freeq.DefaultConfig()
	t.Decode(&cfg)
	deps := freeq.Deps{Ports: w.Ports, Record: w.record, Rulings: rulings{w, cfg.Name}, Agent: w.agent}
	if w.keys != "" { // a configuration can be checked without
		key, seed, err := identity.OpenEndpoint(w.keys)
		if err != nil {
			return gateway.Entry{}, err
		}
		deps.Endpoint, deps.Seed = key, seed
	}
	if w.gateway != nil {
		deps.Fetch = w.fetch.Get
	}
	link, err := freeq.Open(cfg, deps)
	return opened(link, t), err
}

// rulings is what a link to a freeq server asks of the home of this gateway.
type rulings struct {
	wiring

	link string
}

// Moves implements [freeq.Rulings].
func (r rulings) Moves(v federation.View, verb federation.Verb) bool { return r.home().Moves(v, verb) }

// Receipt implements [freeq.Rulings].
func (r rulings) Receipt(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error) {
	return r.home().Receipt(ctx, entry, v)
}

// Settle implements [freeq.Rulings].
func (r rulings) Settle(ctx context.Context, id federation.HandoffID) error {
	return r.gateway.Settle(ctx, id, time.Now())
}

// GiveUp implements [freeq.Rulings].
func (r rulings) GiveUp(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error {
	return r.gateway.GiveUp(ctx, p, code, detail)
}

// Ours implements [freeq.Rulings].
func (r rulings) Ours(ctx context.Context, did federation.DID) bool {
	return r.gateway.Ours(ctx, did, r.link)
}

// Endpoint implements [freeq.Rulings].
func (r rulings) Endpoint(home federation.HomeID) string { return r.gateway.Endpoint(home) }

// home returns the home as it is configured now.
func (w wiring) home() *home.Home { return w.gateway.Home() }

// keyServers returns where the keys are read that the servers behind links serve.
func keyServers(file *configs.File) *map[string]string {
	servers := map[string]string{}
	for _, t := range file.Tables(freeqTable) {
		cfg := freeq.DefaultConfig()
		t.Decode(&cfg)
		servers[cfg.Name] = cfg.PeerAPI
	}
	return &servers
}

// keyServer returns the key server behind a link.
func (p *program) keyServer(link string) (address string, ok bool) {
	servers := p.servers.Load()
	if servers == nil {
		return "", false
	}
	address, ok = (*servers)[link]
	return address, ok
}
