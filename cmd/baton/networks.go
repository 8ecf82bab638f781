package main

import (
	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/a2a"
	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/files"
	ircclient "github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/bridge/macp"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
)

// networks returns the networks of this gateway, in the order of the reference file. The zero
// wiring suffices to check a configuration and to print the reference.
func networks(w server.Wiring) []bridge.Network {
	return []bridge.Network{
		inspircd.Network(w.Record),
		freeq.Network(w.Freeq, w.Endpoint),
		ircclient.Network(w.Clients),
		airc.Network(w.Registry),
		rest.Network(w.Agents),
		a2a.Network(w.A2A),
		a2aclient.Network(w.A2AAgents),
		mcp.Network(w.Participants, w.Version),
		macp.Network(w.MACP),
		macp.Runtimes(w.MACP),
		files.Voice(w.Files),
		files.Tasks(w.Files),
	}
}

func referenceFile() string {
	var parts []string
	for _, network := range networks(server.Wiring{}) {
		parts = append(parts, network.Reference)
	}
	return configs.Reference(parts...)
}
