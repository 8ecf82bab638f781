package operatorapi

import (
	"reflect"
	"strings"
)

// Bodies returns the members of the JSON body that each route reads, by its pattern.
func Bodies() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, each := range routes() {
		if each.document != nil {
			all[each.pattern] = map[string]bool{}
			addMembers(all[each.pattern], reflect.TypeOf(each.document()).Elem())
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
