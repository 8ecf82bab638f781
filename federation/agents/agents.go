// Package agents holds the types of a registry of agents: an [Agent] with its keys, a
// [Message], and the [Consent] that a handle gives to another one. The registry itself
// (bridge/airc) declares the ports that keep them, and federation/store/registry implements
// these.
//
// It is a leaf: it imports package federation alone, so that a network and the record may
// share it. Its functions are pure. Its values may be used concurrently.
package agents

import (
	"errors"
	"slices"
	"strings"
)

// Link is the name of the link to the agents. A step for an agent is filed with this name,
// and is delivered once the agent has fetched it.
const Link = "airc"

// ErrDuplicate is returned for a message id that its sender used within [MessageIDWindow].
var ErrDuplicate = errors.New("agents: message id used before")

// ReservedName reports whether a name on a link stands for a DID by itself, so that no agent
// can register it and no operator can bind it to another DID.
func ReservedName(link, name string) bool {
	return link == Link && slices.ContainsFunc([]string{"plc_", "web_", "key_"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// ReadHere reports whether messages to a handle are for an agent of this registry to
// fetch: no other registry's, no DID of another network and no role.
func ReadHere(handle string) bool {
	return !strings.Contains(handle, "@") && !ReservedName(Link, handle) && handle != "system" && handle != "anyone"
}
