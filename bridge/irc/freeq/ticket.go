package freeq

import (
	"crypto/ed25519"
	"encoding/base32"
	"encoding/binary"
	"net/netip"
	"strings"
)

// The parts of a ticket.
//
// spec: freeq-s2s "Ticket"
const (
	ticketKind    = "endpoint"
	ticketVersion = 0
	directAddress = 1
	ipv4Address   = 0
	ipv6Address   = 1
)

// ticket returns the text by which the program of the transport finds an endpoint:
// its id, and the address where it listens, or the id alone where that is zero.
func ticket(endpoint ed25519.PublicKey, at netip.AddrPort) string {
	text := append([]byte{ticketVersion}, endpoint...)
	if !at.IsValid() {
		return ticketText(binary.AppendUvarint(text, 0))
	}
	family := byte(ipv4Address)
	if at.Addr().Is6() {
		family = ipv6Address
	}
	text = append(binary.AppendUvarint(text, 1), directAddress, family)
	text = append(text, at.Addr().AsSlice()...)
	return ticketText(binary.AppendUvarint(text, uint64(at.Port())))
}

func ticketText(text []byte) string {
	return ticketKind + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(text))
}
