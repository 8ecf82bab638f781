package irc

import (
	"maps"
	"slices"
	"time"

	"baton/federation"
)

// MaxPseudoClients bounds the pseudo-clients of one link: each is a user on the other
// network, and some hundred bytes here. Beyond it the one that has been silent longest
// leaves.
const MaxPseudoClients = 1024

// PseudoClient is a user that this gateway has on another server: its own user, or the
// user of a DID from elsewhere that speaks there. It outlives the connection. A dialect
// embeds it where it needs to know more.
type PseudoClient struct {
	DID federation.DID
	// Shown is the DID by which users there address it, if different.
	Shown federation.DID
	Name  string // base of its nick
	Nick  string
	// In has the channels where it belongs, as venues of the network, and whether it is
	// there.
	In    map[string]bool
	Spoke time.Time // when it spoke last
}

// Base returns what all dialects know of a pseudo-client.
func (p *PseudoClient) Base() *PseudoClient { return p }

// Missing returns the channels where a pseudo-client belongs and is not, in order.
func (p *PseudoClient) Missing() []string {
	var venues []string
	for _, venue := range slices.Sorted(maps.Keys(p.In)) {
		if !p.In[venue] {
			venues = append(venues, venue)
		}
	}
	return venues
}

// LeaveChannels notes that a pseudo-client is in no channel any more.
func (p *PseudoClient) LeaveChannels() {
	for venue := range p.In {
		p.In[venue] = false
	}
}

// Roster is all pseudo-clients of one link. It belongs to one goroutine.
type Roster[P interface{ Base() *PseudoClient }] struct {
	Self   P // the gateway's own user
	venues []string
	others map[federation.DID]P
}

// NewRoster returns a roster of the gateway's own user alone, which belongs in all
// channels of a link, as venues of the network.
func NewRoster[P interface{ Base() *PseudoClient }](self P, venues []string) *Roster[P] {
	self.Base().In = map[string]bool{}
	for _, venue := range venues {
		self.Base().In[venue] = false
	}
	return &Roster[P]{Self: self, venues: venues, others: map[federation.DID]P{}}
}

// All returns the pseudo-clients in the order of their DIDs, the gateway's own first.
func (r *Roster[P]) All() []P {
	all := []P{r.Self}
	for _, did := range slices.Sorted(maps.Keys(r.others)) {
		all = append(all, r.others[did])
	}
	return all
}

// Has reports whether a DID other than the gateway's has a pseudo-client.
func (r *Roster[P]) Has(did federation.DID) bool {
	_, has := r.others[did]
	return has
}

// Speaker returns the pseudo-client from which the step of a DID comes, and notes that it
// speaks now. One in a channel of the link belongs there from then on. It adds the result
// of add where the DID has none, after it has taken out the one that retire is called for
// where there are too many.
func (r *Roster[P]) Speaker(did federation.DID, venue string, add func() P, retire func(P)) P {
	p, known := r.others[did]
	switch {
	case did == r.Self.Base().DID:
		p = r.Self
	case !known:
		if len(r.others) >= MaxPseudoClients {
			quietest := slices.MinFunc(slices.Collect(maps.Values(r.others)), func(a, b P) int { return a.Base().Spoke.Compare(b.Base().Spoke) })
			delete(r.others, quietest.Base().DID)
			retire(quietest)
		}
		p = add()
		p.Base().DID, p.Base().In = did, map[string]bool{}
		r.others[did] = p
	}
	base := p.Base()
	base.Spoke = time.Now()
	if slices.Contains(r.venues, venue) && !base.In[venue] {
		base.In[venue] = false
	}
	return p
}

// DIDs returns the DIDs that have a pseudo-client, the gateway's own left out.
func (r *Roster[P]) DIDs() []federation.DID { return slices.Sorted(maps.Keys(r.others)) }

// Remove takes out the pseudo-client of a DID, if it has one, and calls retire for it.
func (r *Roster[P]) Remove(did federation.DID, retire func(P)) {
	if p, known := r.others[did]; known {
		delete(r.others, did)
		retire(p)
	}
}

// LeaveChannels notes that no pseudo-client is in any channel any more.
func (r *Roster[P]) LeaveChannels() {
	for _, p := range r.All() {
		p.Base().LeaveChannels()
	}
}
