package files

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"baton/federation"
)

// nativePrefix begins the DIDs of the agents that only a directory knows.
func (b *base) nativePrefix() string {
	return "did:web:" + strings.ReplaceAll(string(b.ports.Home), ":", "%3A") + ":dir:" + escape(b.name) + ":"
}

// escape writes a name as a part of a DID.
func escape(name string) string {
	var out strings.Builder
	for _, c := range []byte(name) {
		if c == '-' || c == '.' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// native returns the name of an agent that only the directory knows, "" for another DID.
func (b *base) native(did federation.DID) string {
	part, ok := strings.CutPrefix(string(did), b.nativePrefix())
	if !ok || strings.Contains(part, ":") {
		return ""
	}
	name, err := url.PathUnescape(part)
	if err != nil || escape(name) != part {
		return ""
	}
	return name
}

// nativeOf is native also for the did:key that the gateway keeps for such an agent: a network whose
// steps name the signer alone knows the agent by it. Those keys are known for the names in the
// configuration.
func (b *base) nativeOf(did federation.DID) string {
	if name := b.native(did); name != "" {
		return name
	}
	return b.kept()[did]
}

// keptFor returns some names by the did:keys that the gateway keeps for the agents with these names.
func (b *base) keptFor(names []string) map[federation.DID]string {
	kept := map[federation.DID]string{}
	for _, name := range names {
		if _, represented := b.agents[name]; !represented {
			kept[b.ports.Signer.Kept("person:"+b.nativePrefix()+escape(name)).DID] = name
		}
	}
	return kept
}

// didOf returns the DID of an agent of the directory: that of the configuration, of a binding,
// or one that is made of the name. It blocks on the record.
func (b *base) didOf(ctx context.Context, name string) (federation.DID, error) {
	if did, ok := b.agents[name]; ok {
		return did, nil
	}
	bound, err := b.ports.Bindings.Bound(ctx, b.name, name)
	switch {
	case err == nil:
		return bound.DID, nil
	case !errors.Is(err, federation.ErrNotFound):
		return "", fmt.Errorf("look up %s: %w", name, err)
	}
	return federation.ParseDID(b.nativePrefix() + escape(name))
}

// nameOf returns the name of a DID in the directory, "" for a DID without one. It blocks on the
// record.
func (b *base) nameOf(ctx context.Context, did federation.DID) (string, error) {
	for name, each := range b.agents {
		if each == did {
			return name, nil
		}
	}
	if name := b.nativeOf(did); name != "" {
		return name, nil
	}
	names, err := b.ports.Bindings.Of(ctx, did)
	if err != nil {
		return "", fmt.Errorf("look up names of %s: %w", did, err)
	}
	if i := slices.IndexFunc(names, func(n federation.BoundName) bool { return n.Network == b.name }); i >= 0 {
		return names[i].Name, nil
	}
	for name, each := range b.agents { // another DID of an agent of the configuration
		if did != "" && b.ports.Gateway.Same(ctx, did, each) {
			return name, nil
		}
	}
	return "", nil
}
