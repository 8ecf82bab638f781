package freeq

import (
	"slices"
	"strings"

	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

// maxMembers bounds the users of a peer that are remembered. Beyond it new ones are
// reached only in channels.
const maxMembers = 1 << 16

// person is a user of the server.
type person struct {
	nick  string
	did   federation.DID // empty of a guest
	in    []string       // the channels of this federation that they are in
	other int            // how many other channels
	meter irc.Meter
}

// members is what the peer told of its users. It lasts as long as the connection.
type members struct {
	ours  []string // venues of this federation
	nicks map[string]*person
	dids  map[federation.DID]*person // the one that came last
}

func newMembers(ours []string) *members {
	return &members{ours: ours, nicks: map[string]*person{}, dids: map[federation.DID]*person{}}
}

func fold(nick string) string { return strings.ToLower(nick) }

// named returns a user by nick, or nil.
func (m *members) named(nick string) *person { return m.nicks[fold(nick)] }

// join notes that a user is in a channel.
func (m *members) join(nick, channel string, did *string) {
	venue, ok := translate.Channel(channel)
	if !ok || len(m.nicks) >= maxMembers && m.named(nick) == nil {
		return
	}
	p := m.named(nick)
	if p == nil {
		p = &person{nick: nick}
		m.nicks[fold(nick)] = p
	}
	if did != nil {
		m.identify(p, *did)
	}
	switch {
	case !slices.Contains(m.ours, venue):
		p.other++
	case !slices.Contains(p.in, venue):
		p.in = append(p.in, venue)
	}
}

// identify notes the DID that a user is logged in as.
func (m *members) identify(p *person, text string) {
	did, err := federation.ParseDID(text)
	if err != nil {
		return
	}
	m.unname(p)
	p.did = did
	m.dids[did] = p
}

func (m *members) unname(p *person) {
	if p.did != "" && m.dids[p.did] == p {
		delete(m.dids, p.did)
	}
}

// part notes that a user left a channel. A user that is in none is forgotten.
func (m *members) part(nick, channel string) {
	p := m.named(nick)
	venue, ok := translate.Channel(channel)
	if p == nil || !ok {
		return
	}
	if slices.Contains(m.ours, venue) {
		p.in = slices.DeleteFunc(p.in, func(each string) bool { return each == venue })
	} else {
		p.other--
	}
	if len(p.in) == 0 && p.other <= 0 {
		m.quit(nick)
	}
}

func (m *members) quit(nick string) {
	if p := m.named(nick); p != nil {
		m.unname(p)
		delete(m.nicks, fold(nick))
	}
}

func (m *members) rename(old, nick string) {
	p := m.named(old)
	if p == nil || m.named(nick) != nil {
		return
	}
	delete(m.nicks, fold(old))
	p.nick = nick
	m.nicks[fold(nick)] = p
}

// online reports whether a user is logged in as a DID.
func (m *members) online(did federation.DID) bool { return m.dids[did] != nil }
