package bridgetest

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"strings"
	"time"
)

const maxRelayed = 4096

// relayed is a message of another server, with the public key of its signer. The zero value ends a
// server.
type relayed struct {
	due  time.Time
	from string // endpoint ID
	m    map[string]any
	keys map[string]ed25519.PublicKey
}

// Shown is a step that a server showed to its users.
type Shown struct {
	Step, Handoff, Verb string
	From                string
}

// Mesh makes servers peers of each other. Their messages are delayed.
func Mesh(lag time.Duration, servers ...*Freeq) {
	for _, f := range servers {
		f.mu.Lock()
		f.lag = lag
		for _, other := range servers {
			if other != f && !slices.Contains(f.peers, other) {
				f.peers = append(f.peers, other)
			}
		}
		f.mu.Unlock()
	}
}

// Unmesh removes all peers of a server.
func (f *Freeq) Unmesh() {
	f.mu.Lock()
	others := f.peers
	f.peers = nil
	f.mu.Unlock()
	for _, other := range others {
		other.mu.Lock()
		other.peers = slices.DeleteFunc(slices.Clone(other.peers), func(peer *Freeq) bool { return peer == f })
		other.mu.Unlock()
	}
}

// Shown returns the steps of a handoff shown to users here, in order, without receipts.
func (f *Freeq) Shown(handoff string) []Shown {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.shown), func(s Shown) bool { return s.Handoff != handoff || s.Verb == "confirm" })
}

// show records a step shown to users here, or a private one to its two parties. The lock is held.
func (f *Freeq) show(m map[string]any) {
	tags := textsOf(m["tags"])
	if target := text(m, "target"); !strings.HasPrefix(target, "#") && !f.serves(target) && !f.serves(tags["+freeq.at/from"]) {
		return
	}
	s := Shown{Step: tags["+freeq.at/eventid"], Handoff: tags["+freeq.at/act-id"], Verb: tags["+freeq.at/act-verb"], From: text(m, "from")}
	if s.Handoff == "" {
		s.Handoff = s.Step
	}
	f.shown = append(f.shown, s)
}

// The lock is held.
func (f *Freeq) serves(name string) bool {
	for _, u := range f.users {
		if u.Nick == name || string(u.DID) == name {
			return true
		}
	}
	return false
}

func textsOf(raw any) map[string]string {
	tags := map[string]string{}
	switch raw := raw.(type) {
	case map[string]string:
		maps.Copy(tags, raw)
	case map[string]any:
		for name, value := range raw {
			tags[name], _ = value.(string)
		}
	}
	return tags
}

// relay sends a message to the server with an endpoint ID, or to all for "". The lock is held.
func (f *Freeq) relay(to string, m map[string]any) {
	for _, other := range f.peers {
		if to == "" || to == other.id {
			other.relayed <- relayed{due: time.Now().Add(f.lag), from: f.id, m: maps.Clone(m), keys: maps.Clone(f.keys)}
		}
	}
}

func (f *Freeq) relays() {
	for r := range f.relayed {
		if r.m == nil {
			return
		}
		time.Sleep(time.Until(r.due))
		f.mu.Lock()
		f.relayedStep(r)
		f.note()
		f.mu.Unlock()
	}
}

// The lock is held.
func (f *Freeq) relayedStep(r relayed) {
	for name, key := range r.keys {
		if f.keys[name] == nil {
			f.keys[name] = key
		}
	}
	tags := textsOf(r.m["tags"])
	venue := f.venue(text(r.m, "target"), tags)
	document, err := actDocument(tags, venue)
	if err != nil {
		f.odd("no document: %v", err)
		return
	}
	if text(r.m, "type") == "tagmsg" {
		f.show(r.m)
	}
	f.file(freeqRow{
		id: tags["+freeq.at/eventid"], task: tags["+freeq.at/act-id"], venue: venue, canonical: document,
		signature: tags["+freeq.at/sig"], actor: tags["+freeq.at/from"], origin: r.from, at: time.Now().Unix(),
	}, tags, false, text(r.m, "type") == "act_route")
}
