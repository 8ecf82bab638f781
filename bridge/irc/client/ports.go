package client

import (
	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation/store/registry"
)

// Deps is what a listener needs of the rest of the program.
type Deps struct {
	bridge.Ports

	Record *registry.Record
	// Logins counts the attempts of each address to log in, at all listeners.
	Logins credential.Addresses
	// MaxClients lowers max_clients, where this process may not open as many files; 0 does not.
	MaxClients int
}
