package bridgetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// Contacts implements the methods of [bridge.Messages] for decisions about senders. No user has a
// nick.
type Contacts struct {
	bridge.Messages // set it in a test that sends text

	Decided map[[2]federation.DID]federation.ContactState // by person and sender
	Most    int                                           // maximum number of decisions; 0 means no limit
}

// Addressee implements [bridge.Messages].
func (*Contacts) Addressee(context.Context, string) (bridge.Recipient, error) {
	return bridge.Recipient{}, federation.ErrNotFound
}

// Introduce implements [bridge.Messages]: no link has peers.
func (*Contacts) Introduce(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// Decide implements [bridge.Messages].
func (c *Contacts) Decide(_ context.Context, person, sender federation.DID, allow bool) error {
	if c.Most > 0 && len(c.Decided) == c.Most {
		return federation.ErrTooManyContacts
	}
	if c.Decided == nil {
		c.Decided = map[[2]federation.DID]federation.ContactState{}
	}
	state := federation.ContactBlocked
	if allow {
		state = federation.ContactAllowed
	}
	c.Decided[[2]federation.DID{person, sender}] = state
	return nil
}

// Contacts implements [bridge.Messages].
func (c *Contacts) Contacts(_ context.Context, person federation.DID, after string, limit int) ([]federation.Contact, string, error) {
	var found []federation.Contact
	for _, pair := range slices.SortedFunc(maps.Keys(c.Decided), func(a, b [2]federation.DID) int { return cmp.Compare(a[1], b[1]) }) {
		if pair[0] != person || string(pair[1]) <= after {
			continue
		}
		if len(found) == limit {
			return found, string(found[limit-1].Sender), nil
		}
		found = append(found, federation.Contact{Person: person, Sender: pair[1], State: c.Decided[pair], Since: time.Unix(1, 0)})
	}
	return found, "", nil
}
