package server

import (
	"context"
	"slices"
	"strings"

	"baton/federation"
)

// BoundNames knows the names of DIDs: the names of the configuration, and the names of the record that the
// configuration does not bind. So each name has one DID. It implements [Names].
type BoundNames struct {
	Record     NameRecord
	Configured func() []federation.BoundName // may change while the gateway runs
}

// NameRecord keeps the names that operators bound.
type NameRecord interface {
	// BoundName returns [federation.ErrNotFound] for a name that is not bound.
	BoundName(ctx context.Context, network, name string) (federation.BoundName, error)
	// BoundNames returns up to limit bindings after the one of a name, in the order of
	// networks and names.
	BoundNames(ctx context.Context, network, name string, limit int) ([]federation.BoundName, error)
	// NamesOf returns the bindings of a DID, in the same order.
	NamesOf(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
}

// Bound returns the binding of a name, or [federation.ErrNotFound].
func (n BoundNames) Bound(ctx context.Context, network, name string) (federation.BoundName, error) {
	if b, ok := n.configuredAs(network, name); ok {
		return b, nil
	}
	return n.Record.BoundName(ctx, network, name)
}

// Of returns the bindings of a DID, with the bindings of the configuration first.
func (n BoundNames) Of(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	var all []federation.BoundName
	for _, b := range n.Configured() {
		if b.DID == did {
			all = append(all, b)
		}
	}
	kept, err := n.Record.NamesOf(ctx, did)
	for _, b := range kept {
		if _, overruled := n.configuredAs(b.Network, b.Name); !overruled {
			all = append(all, b)
		}
	}
	return all, err
}

func (n BoundNames) configuredAs(network, name string) (federation.BoundName, bool) {
	all := n.Configured()
	i := slices.IndexFunc(all, func(b federation.BoundName) bool { return b.Network == network && b.Name == name })
	if i < 0 {
		return federation.BoundName{}, false
	}
	return all[i], true
}

// namesPage is how many bindings are read at a time.
const namesPage = 500

// ByHash returns the one DID of all bindings whose hash has a prefix, "" where none or several
// have. Operators make bindings by hand: there are never many.
func (n BoundNames) ByHash(ctx context.Context, prefix string) (federation.DID, error) {
	all, last := slices.Clone(n.Configured()), federation.BoundName{}
	for more := true; more; {
		page, err := n.Record.BoundNames(ctx, last.Network, last.Name, namesPage)
		if err != nil {
			return "", err
		}
		if more = len(page) == namesPage; more {
			last = page[namesPage-1]
		}
		all = append(all, page...)
	}
	var found federation.DID
	for _, b := range all {
		switch {
		case !strings.HasPrefix(b.DID.Hash(), prefix) || b.DID == found:
		case found != "":
			return "", nil
		default:
			found = b.DID
		}
	}
	return found, nil
}
