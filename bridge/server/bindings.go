package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"baton/configs"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
)

// boundNames returns the bindings of a configuration. It adds mistakes in their tables to the
// mistakes of the file. The links are the names of its links; nil where some are unknown.
func boundNames(file *configs.File, links map[string]bool) []federation.BoundName {
	var bound []federation.BoundName
	taken := map[[2]string]bool{}
	for _, t := range file.Tables("bindings") {
		var table configs.Binding
		t.Decode(&table)
		did, err := federation.ParseDID(table.DID)
		if err != nil {
			t.Mistake("did", "want a DID, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
		} else if err := identity.CheckDID(did); err != nil {
			t.Mistake("did", "no party can prove it: "+err.Error())
		}
		if table.Name == "" {
			t.Mistake("name", "is required")
		}
		if agents.ReservedName(table.Network, table.Name) {
			t.Mistake("name", "names with plc_, web_ or key_ in front stand for DIDs by themselves")
		}
		if links != nil && !links[table.Network] {
			t.Mistake("network", fmt.Sprintf("want the name of a link: %s", strings.Join(slices.Sorted(maps.Keys(links)), ", ")))
		}
		key := [2]string{table.Network, table.Name}
		if taken[key] {
			t.Mistake("name", fmt.Sprintf("%q is bound above: a name stands for one DID", table.Name))
		}
		taken[key] = true
		bound = append(bound, federation.BoundName{Network: table.Network, Name: table.Name, DID: did, Vouch: table.Vouch})
	}
	return bound
}
