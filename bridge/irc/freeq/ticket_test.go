package freeq_test

import (
	"bytes"
	"crypto/ed25519"
	"net/netip"
	"strings"
	"testing"

	"baton/bridge/irc/freeq"
)

func TestTickets(t *testing.T) {
	public := func(seed byte) ed25519.PublicKey {
		key, _ := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
		return key
	}
	for name, test := range map[string]struct{ at, want string }{
		"an address of IPv4": {"127.0.0.1:14433", "endpointacqjvjpupjtvtabp7fk7rxbnfikklsm5eo7jp6decj77sobukwspaaibab7qaaab4fya"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := freeq.Ticket(public(0x22), netip.MustParseAddrPort(test.at)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	if got := freeq.Ticket(public(0x22), netip.AddrPort{}); !strings.HasPrefix(got, "endpoint") || len(got) != len("endpoint")+55 {
		t.Errorf("without an address: %s", got) // 34 bytes: version, id, no addresses
	}
	six := freeq.Ticket(public(0x22), netip.MustParseAddrPort("[::1]:14433"))
	if len(six) != len("endpoint")+87 { // 54 bytes: two tags, 16 of address and two of port more than none
		t.Errorf("IPv6: %s of %d", six, len(six))
	}
}
