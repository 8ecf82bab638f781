package main

import (
	"baton/bridge"
	"baton/bridge/a2a"
	"baton/bridge/agentapi"
	"baton/bridge/airc"
	"baton/bridge/files"
	ircclient "baton/bridge/irc/client"
	"baton/bridge/irc/freeq"
	"baton/bridge/irc/spanningtree"
	"baton/bridge/macp"
	"baton/bridge/mcp"
	"baton/configs"
)

// networks returns the networks of this gateway, in the order of the reference file. The zero
// wiring is enough to check a configuration and to print the reference.
func networks(w wiring) []bridge.Network {
	return []bridge.Network{
		spanningtree.Network(w.handoffs),
		freeq.Network(w.freeq, w.endpoint),
		ircclient.Network(w.clients),
		airc.Network(w.registry),
		agentapi.Network(w.agents),
		a2a.Network(w.a2a),
		mcp.Network(w.participants, buildVersion().Version),
		macp.Network(w.macp),
		macp.Runtimes(w.macp),
		files.Voice(w.files),
		files.Tasks(w.files),
	}
}

// referenceFile returns the reference: every key with its default.
func referenceFile() string {
	var parts []string
	for _, network := range networks(wiring{}) {
		parts = append(parts, network.Reference)
	}
	return configs.Reference(parts...)
}
