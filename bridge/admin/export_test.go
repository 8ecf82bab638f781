package admin

import (
	"reflect"
	"strings"

	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// Routes returns the scope that each route needs, by its pattern.
func Routes() map[string]federation.Scope {
	all := map[string]federation.Scope{}
	for _, each := range routes() {
		all[each.Pattern()] = each.Scope
	}
	return all
}

// Declared returns the routes of the contract.
func Declared() []route.Description {
	all := []route.Description{route.Describe(CallParticipant)}
	for _, each := range routes() {
		all = append(all, each.Description)
	}
	return all
}

// Bodies returns the members of the JSON body that each route reads, by its pattern.
func Bodies() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, each := range routes() {
		for _, field := range route.Fields(each.In) {
			if document := field.Document(); document != nil {
				all[each.Pattern()] = map[string]bool{}
				addMembers(all[each.Pattern()], document)
			}
		}
	}
	return all
}

func addMembers(members map[string]bool, document reflect.Type) {
	for field := range document.Fields() {
		if field.Anonymous {
			addMembers(members, field.Type)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		members[name] = true
	}
}
