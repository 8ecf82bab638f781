package freeq_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation/identity"
)

// ofSeed returns the id of the endpoint whose key has a seed of one byte repeated.
func ofSeed(seed byte) string {
	return identity.EndpointID(public(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))))
}

// spec: freeq-s2s "Ticket"
func TestTicketRoundTrips(t *testing.T) {
	at := func(addresses ...string) (all []netip.AddrPort) {
		for _, a := range addresses {
			all = append(all, netip.MustParseAddrPort(a))
		}
		return all
	}
	for name, test := range map[string]struct {
		endpoint string
		relays   []string
		direct   []netip.AddrPort
		text     string // "" for one that no other program has written
	}{
		"an address of IPv4": {
			endpoint: ofSeed(0x22), direct: at("127.0.0.1:14433"),
			text: "endpointacqjvjpupjtvtabp7fk7rxbnfikklsm5eo7jp6decj77sobukwspaaibab7qaaab4fya",
		},
		"a relay and an address": {
			endpoint: "ae58ff8833241ac82d6ff7611046ed67b5072d142c588d0063e942d9a75502b6",
			relays:   []string{"http://derp.me./"}, direct: at("127.0.0.1:1024"),
			text: "endpointacxfr74igmsbvsbnn73wcecg5vt3kbzncqwfrdiampuufwnhkublmaqacbuhi5dqhixs6zdfojyc43lffyxqcad7aaaadaai",
		},
		"an address of IPv6":      {endpoint: ofSeed(0x22), direct: at("[2001:db8::1]:14433")},
		"an id alone":             {endpoint: ofSeed(0x22)},
		"a relay alone":           {endpoint: ofSeed(0x22), relays: []string{"https://relay.example./"}},
		"an address of each kind": {endpoint: ofSeed(0x22), direct: at("127.0.0.1:1", "[::1]:65535")},
	} {
		t.Run(name, func(t *testing.T) {
			text := freeq.Ticket(test.endpoint, test.relays, test.direct)
			if test.text != "" && text != test.text {
				t.Errorf("made %s\nwant %s", text, test.text)
			}
			endpoint, relays, direct, err := freeq.ParseTicket(text)
			if err != nil {
				t.Fatal(err)
			}
			if endpoint != test.endpoint || !cmp.Equal(relays, test.relays) || !cmp.Equal(direct, test.direct, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })) {
				t.Errorf("read %s at %v and %v", endpoint, relays, direct)
			}
		})
	}
}

func TestParseTicketRefusesOtherText(t *testing.T) {
	good := freeq.Ticket(ofSeed(0x22), nil, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:14433")})
	for name, text := range map[string]string{
		"nothing":            "",
		"another kind":       "node" + good[len("endpoint"):],
		"half an id":         good[:40],
		"half an address":    good[:len(good)-3],
		"more than it says":  good + "aaaaaaaa",
		"in capitals":        "endpoint" + string(bytes.ToUpper([]byte(good[len("endpoint"):]))),
		"no base32":          "endpoint" + "0189",
		"too many addresses": freeq.Ticket(ofSeed(0x22), make([]string, 65), nil),
		"another version":    "endpointae" + good[len("endpointac"):],
		"hexadecimal":        "endpoint" + hex.EncodeToString([]byte("ticket")),
	} {
		t.Run(name, func(t *testing.T) {
			if endpoint, _, _, err := freeq.ParseTicket(text); err == nil {
				t.Errorf("read as endpoint %s", endpoint)
			}
		})
	}
}

func TestTicketIsAnAddress(t *testing.T) {
	c := goodConfig()
	c.EndpointID, c.Address = ofSeed(0x22), freeq.Ticket(ofSeed(0x22), []string{"https://relay.example./"}, nil)
	if got := freeq.DialTicket(c); got != c.Address {
		t.Errorf("dials by %s, want %s", got, c.Address)
	}
	c.Address = "192.0.2.7:4433"
	if got, want := freeq.DialTicket(c), freeq.Ticket(ofSeed(0x22), nil, []netip.AddrPort{netip.MustParseAddrPort(c.Address)}); got != want {
		t.Errorf("dials by %s, want %s", got, want)
	}
}
