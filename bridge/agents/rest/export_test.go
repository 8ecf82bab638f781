package rest

import "github.com/baton-gateway/baton/bridge/route"

// Declared returns the routes of the contract.
func Declared() []route.Description {
	var all []route.Description
	for _, each := range routes() {
		all = append(all, each.Description)
	}
	return all
}
