package irc

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

const shortHash = 4

// Nicks yields candidate nicks of at most maxBytes for a DID, best first. The first candidate is
// the name with the suffix. Later candidates are truncated and end in "_" and a growing part of the
// DID's hash. The caller needs a fallback if none is free.
//
// In a name, invalid characters become "_", and a leading digit gets the prefix "_". A DID without
// a name gets the last word of a did:web, else "agent" and the beginning of its hash.
func Nicks(name, suffix string, did federation.DID, maxBytes int) iter.Seq[string] {
	hash := did.Hash()
	if name == did.Short() {
		name = nameless(did)
	}
	base := sanitiseNick(name) + suffix
	return func(yield func(string) bool) {
		if len(base) <= maxBytes && !yield(base) {
			return
		}
		for n := shortHash; n <= len(hash) && n+2 <= maxBytes; n++ {
			cut := base[:min(len(base), maxBytes-n-1)]
			if !yield(cut + "_" + hash[:n]) {
				return
			}
		}
	}
}

// The name is "scout" for did:web:gw.example:scout and did:web:scout.example.
func nameless(did federation.DID) string {
	if did.Method() != "web" {
		return "agent-" + did.Hash()[:shortHash]
	}
	parts := strings.Split(string(did), ":")[2:] // host and path
	if len(parts) > 1 {
		return parts[len(parts)-1]
	}
	host, _, _ := strings.Cut(parts[0], ".")
	return host
}

// ValidNick reports whether a string may be a nick on any server.
//
// spec: rfc2812 §2.3.1
func ValidNick(s string) bool {
	return s != "" && s == sanitiseNick(s)
}

// ValidNickSuffix reports whether a string may end any nick.
func ValidNickSuffix(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !nickRune(r) }) < 0
}

func sanitiseNick(name string) string {
	var b strings.Builder
	for _, r := range Plain(name) {
		switch {
		case nickRune(r):
			b.WriteRune(r)
		case r != '…': // the mark of a truncated name
			b.WriteByte('_')
		}
	}
	nick := b.String()
	if nick == "" || nick[0] == '-' || '0' <= nick[0] && nick[0] <= '9' {
		return "_" + nick
	}
	return nick
}

func nickRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return strings.ContainsRune("[]\\`_^{|}-", r)
}

// MaxPseudoClients bounds the pseudo-clients of one link. Each is a user on the other network, and
// uses some hundred bytes here. Above the limit, the one with the oldest message leaves.
const MaxPseudoClients = 1024

// PseudoClient is a user of this gateway on another server: its own user, or the user for an author
// on another network. It outlives the connection. Dialects embed it to add state.
type PseudoClient struct {
	DID federation.DID
	// Shown is the DID by which users there address it, if different.
	Shown federation.DID
	Name  string // base of its nick
	Nick  string
	// In maps its channels, as venues on the network, to whether it has joined.
	In    map[string]bool
	Spoke time.Time // last message
}

// Base returns the part of a pseudo-client common to all dialects.
func (p *PseudoClient) Base() *PseudoClient { return p }

// Missing returns the channels to join, in order.
func (p *PseudoClient) Missing() []string {
	var venues []string
	for _, venue := range slices.Sorted(maps.Keys(p.In)) {
		if !p.In[venue] {
			venues = append(venues, venue)
		}
	}
	return venues
}

// LeaveChannels records that a pseudo-client has left all channels.
func (p *PseudoClient) LeaveChannels() {
	for venue := range p.In {
		p.In[venue] = false
	}
}

// Roster contains all pseudo-clients of one link. It belongs to one goroutine.
type Roster[P interface{ Base() *PseudoClient }] struct {
	Self   P // the gateway's own user
	venues []string
	others map[federation.DID]P
	moves  Moves
}

// movesTime is the maximum time in flight of lines for a user's previous nick.
const movesTime = 5 * time.Second

// Moves maps the previous DIDs of users that recently changed their nicks. It is needed because the
// gateway's DID for a user depends on its nick. The zero Moves is empty. It belongs to one goroutine.
type Moves struct{ to map[federation.DID]move }

type move struct {
	did  federation.DID
	name string
	at   time.Time
}

// Add records a nick change.
func (m *Moves) Add(c bridge.PresenceChange) {
	maps.DeleteFunc(m.to, func(_ federation.DID, old move) bool { return time.Since(old.at) >= movesTime })
	if m.to == nil {
		m.to = map[federation.DID]move{}
	}
	delete(m.to, c.Now) // the user is back
	if c.DID != c.Now {
		m.to[c.DID] = move{c.Now, c.Name, time.Now()}
	}
}

// Now returns the current DID and name of a user.
func (m *Moves) Now(did federation.DID, name string) (federation.DID, string) {
	if to, moved := m.to[did]; moved && time.Since(to.at) < movesTime {
		return to.did, to.name
	}
	return did, name
}

// NewRoster returns a roster with only the gateway's own user. That user joins all channels of the
// link, given as venues on the network.
func NewRoster[P interface{ Base() *PseudoClient }](self P, venues []string) *Roster[P] {
	self.Base().In = map[string]bool{}
	for _, venue := range venues {
		self.Base().In[venue] = false
	}
	return &Roster[P]{Self: self, venues: venues, others: map[federation.DID]P{}}
}

// All returns the pseudo-clients ordered by DID, after the gateway's own.
func (r *Roster[P]) All() []P {
	all := []P{r.Self}
	for _, did := range slices.Sorted(maps.Keys(r.others)) {
		all = append(all, r.others[did])
	}
	return all
}

// Of returns the pseudo-client of a DID other than the gateway's, or the zero P.
func (r *Roster[P]) Of(did federation.DID) P { return r.others[did] }

// Has reports whether a DID other than the gateway's has a pseudo-client.
func (r *Roster[P]) Has(did federation.DID) bool {
	_, has := r.others[did]
	return has
}

// Speaker returns the pseudo-client for a DID, and records the time. If venue is a channel of the
// link, the pseudo-client joins it. If the DID has no pseudo-client, Speaker adds the result of add.
// Above [MaxPseudoClients], it first removes the one with the oldest message and calls retire for it.
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

// DIDs returns the sorted DIDs with a pseudo-client, without the gateway's own.
func (r *Roster[P]) DIDs() []federation.DID { return slices.Sorted(maps.Keys(r.others)) }

// Remove removes the pseudo-client of a DID, if it has one, and calls retire for it.
func (r *Roster[P]) Remove(did federation.DID, retire func(P)) {
	if p, known := r.others[did]; known {
		delete(r.others, did)
		retire(p)
	}
}

// Moved is [Moves.Now] for the roster's moves.
func (r *Roster[P]) Moved(did federation.DID, name string) (federation.DID, string) {
	return r.moves.Now(did, name)
}

// Move updates a pseudo-client after a nick change of its user, and returns it. It retires another
// pseudo-client with the new DID. It returns false if the user has no pseudo-client.
func (r *Roster[P]) Move(c bridge.PresenceChange, retire func(P)) (p P, known bool) {
	r.moves.Add(c)
	if p, known = r.others[c.DID]; !known {
		return p, false
	}
	p.Base().Name = c.Name
	if c.DID != c.Now {
		r.Remove(c.Now, retire)
		delete(r.others, c.DID)
		r.others[c.Now], p.Base().DID = p, c.Now
	}
	return p, true
}

// LeaveChannels records that all pseudo-clients have left all channels.
func (r *Roster[P]) LeaveChannels() {
	for _, p := range r.All() {
		p.Base().LeaveChannels()
	}
}

// PresenceEvery is the interval of checks for users that left their own network. A user missing in
// two checks has left: most users reconnect sooner.
const PresenceEvery = time.Minute

// LeftReason is the QUIT reason of a pseudo-client whose user left.
const LeftReason = "left its own network"

// WatchPresence calls leave for each pseudo-client whose user left its own network, until over is
// closed. The function dids returns the DIDs with a pseudo-client. The owner runs dids and leave. The
// function ask makes the owner call a function, and reports whether it did.
func WatchPresence(ctx context.Context, p bridge.Presence, every time.Duration, over <-chan struct{}, ask func(do func()) bool, dids func() []federation.DID, leave func(federation.DID)) {
	if p == nil {
		return
	}
	look := time.NewTicker(every)
	defer look.Stop()
	before := map[federation.DID]bool{}
	for {
		select {
		case <-look.C:
		case <-over:
			return
		}
		var all []federation.DID
		if !ask(func() { all = dids() }) {
			return
		}
		missing := map[federation.DID]bool{}
		for _, did := range all {
			switch gone := p.Left(ctx, did); {
			case gone && before[did]:
				ask(func() { leave(did) })
			case gone:
				missing[did] = true
			}
		}
		before = missing
	}
}

// Announcer sends user changes of a link to other links, in order. It belongs to one goroutine.
type Announcer struct {
	link     string
	presence bridge.Presence // nil without other links
	run      func(func())    // starts a goroutine
	last     chan struct{}   // closed after the last change was sent
}

// NewAnnouncer returns an announcer for a link. Run starts its goroutines.
func NewAnnouncer(link string, p bridge.Presence, run func(func())) Announcer {
	return Announcer{link: link, presence: p, run: run}
}

// Announce sends a change of a user to other links. Relayed is the DID under which the user's text
// was relayed; Announce updates it if the DID changes. If it is "", no text was relayed and nothing
// is sent.
func (a *Announcer) Announce(ctx context.Context, relayed *federation.DID, c bridge.PresenceChange) {
	if *relayed == "" {
		return
	}
	c.Link, c.DID = a.link, *relayed
	if c.Now != "" {
		*relayed = c.Now
	}
	if a.presence == nil {
		return
	}
	before, done := a.last, make(chan struct{})
	a.last = done
	a.run(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		a.presence.Changed(ctx, c)
	})
}
