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
	deps := freeq.Deps{Ports: w.Ports, Handoffs: w.record, Agent: w.agent}
	if w.keys != "" { // a configuration can be checked without
		key, seed, err := identity.OpenEndpoint(w.keys)
		if err != nil {
			return gateway.Entry{}, err
		}
		deps.Endpoint, deps.Seed = key, seed
	}
	if w.gateway != nil {
		deps.Guests, deps.Owed, deps.Fetch, deps.GiveUp = w.record, w.record.OwedIn, w.fetch.Get, w.gateway.GiveUp
		deps.Filed, deps.Given = w.record.Step, w.record.Given
		deps.Settle = func(ctx context.Context, id federation.HandoffID) error { return w.gateway.Settle(ctx, id, time.Now()) }
		deps.Ours = func(ctx context.Context, did federation.DID) bool { return w.gateway.Ours(ctx, did, cfg.Name) }
		deps.Moves = func(v federation.View, verb federation.Verb) bool { return w.home().Moves(v, verb) }
		deps.Confirm = func(ctx context.Context, entry federation.Entry, v federation.View) (federation.Event, error) {
			return w.home().Receipt(ctx, entry, v)
		}
	}
	link, err := freeq.Open(cfg, deps)
	return opened(link, t), err
}

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
