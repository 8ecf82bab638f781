package freeq

import (
	"context"
	"crypto/ed25519"
	"net/netip"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// Ticket returns the text of a ticket, which other programs read.
func Ticket(endpoint string, relays []string, direct []netip.AddrPort) string {
	key, _ := parseEndpointID(endpoint)
	return ticket{endpoint: key, relays: relays, direct: direct}.String()
}

// ParseTicket reads the text of a ticket.
func ParseTicket(text string) (endpoint string, relays []string, direct []netip.AddrPort, err error) {
	t, err := parseTicket(text)
	return identity.EndpointID(t.endpoint), t.relays, t.direct, err
}

// DialTicket returns the ticket by which a link dials.
func DialTicket(c Config) string { return c.ticket().String() }

// OpenLine opens one line as a link does, and returns why it cannot.
func OpenLine(line []byte, peer ed25519.PublicKey) (message any, why string) {
	m, wrong := open(line, peer)
	return m, string(wrong)
}

// SealLine writes a step as a link does: encoded, signed, in its envelope.
func SealLine(ctx context.Context, key federation.SigningKey, tags map[string]string) ([]byte, error) {
	return signEnvelope(ctx, key, &wireMessage{Type: typeTagmsg, EventID: "e:1", From: "scout-gw", Target: "#ops", Tags: tags, Origin: "e"})
}

// KeepMembers returns a server's users as a link keeps them, with how many are known.
func KeepMembers(channel string, nicks, dids []string) (kept any, known int) {
	m := newMembers([]string{channel})
	for i, nick := range nicks {
		m.join(nick, channel, &dids[i])
	}
	return m, len(m.nicks)
}

// Page is the answer to a question of a peer.
type Page struct {
	Seconds []int64 // of each row, unix
	More    bool
}

// Answer returns the answer of a link to a peer's catch-up request.
func Answer(ctx context.Context, l *Link, since int64, limit int) Page {
	m := l.history(ctx, answer{since: time.Unix(since, 0), limit: limit})
	p := Page{More: m.More}
	for _, row := range m.Events {
		p.Seconds = append(p.Seconds, row.Timestamp)
	}
	return p
}

// ProbeEvery is how long a peer may be silent before it is asked whether it lives.
const ProbeEvery = probeEvery

// MaxPeered is how many other servers a link remembers.
const MaxPeered = maxPeered

// RememberServers lets the log of a server name other servers, and returns how many are
// remembered, and whether the last one is.
func RememberServers(names []string) (remembered int, last bool) {
	p := newPeers()
	for _, name := range names {
		p.saw(replayed{Canonical: anOffer, Origin: name}, true)
		last = p.expected[name]
	}
	return len(p.expected), last
}

// anOffer is the document of an offer.
const anOffer = `{"act":"handoff","act-title":"x","act-verb":"offer","from":"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa","id":"01M84B2QQTTV88PVJ34XV13FQ4","target":"#ops"}`

// LookForDepartures has a link that does not run look for users that left their own network.
func LookForDepartures(l *Link, every time.Duration) { l.presenceEvery = every }

// AnswerTimeout returns the timeout of a link after some answers followed by missed ones.
func AnswerTimeout(missed int, took ...time.Duration) time.Duration {
	var trips roundTrips
	for _, each := range took {
		trips.measured(each)
	}
	for range missed {
		trips.missed()
	}
	return trips.timeout()
}
