package main

import (
	"baton/bridge"
	"baton/bridge/agents/a2a"
	"baton/bridge/agents/a2a/a2aclient"
	"baton/bridge/agents/mcp"
	"baton/bridge/agents/rest"
	"baton/bridge/airc"
	"baton/bridge/files"
	ircclient "baton/bridge/irc/client"
	"baton/bridge/irc/freeq"
	"baton/bridge/irc/inspircd"
	"baton/bridge/macp"
	"baton/bridge/server"
	"baton/configs"
)

// networks returns the networks of this gateway, in the order of the reference file. The zero
// wiring is enough to check a configuration and to print the reference.
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

// referenceFile returns the reference: every key with its default.
func referenceFile() string {
	var parts []string
	for _, network := range networks(server.Wiring{}) {
		parts = append(parts, network.Reference)
	}
	return configs.Reference(parts...)
}
