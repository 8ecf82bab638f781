package operatorapi

import "baton/federation"

// Routes returns the scope that each route needs, by its pattern.
func Routes() map[string]federation.Scope {
	all := map[string]federation.Scope{}
	for _, each := range New(Deps{}).routes() {
		all[each.pattern] = each.needs
	}
	return all
}
