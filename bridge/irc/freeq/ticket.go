package freeq

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"baton/federation"
)

// The parts of a ticket.
//
// spec: freeq-s2s "Ticket"
const (
	ticketKind    = "endpoint"
	ticketVersion = 0
	relayAddress  = 0
	directAddress = 1
	ipv4Address   = 0
	ipv6Address   = 1
	endpointBytes = 32 // of the id
)

// Bounds of a ticket that another program wrote.
const (
	maxTicketAddresses = 64
	maxRelayBytes      = 2048
)

// ticket is what the program of the transport finds an endpoint by: its id, and where
// it may be. Without a place the program looks for it by the id.
type ticket struct {
	endpoint ed25519.PublicKey
	relays   []string // URLs
	direct   []netip.AddrPort
}

// String returns the text of a ticket, relays first.
func (t ticket) String() string {
	text := append([]byte{ticketVersion}, t.endpoint...)
	text = binary.AppendUvarint(text, uint64(len(t.relays)+len(t.direct)))
	for _, relay := range t.relays {
		text = binary.AppendUvarint(append(text, relayAddress), uint64(len(relay)))
		text = append(text, relay...)
	}
	for _, at := range t.direct {
		family := byte(ipv4Address)
		if at.Addr().Is6() {
			family = ipv6Address
		}
		text = append(append(text, directAddress, family), at.Addr().AsSlice()...)
		text = binary.AppendUvarint(text, uint64(at.Port()))
	}
	return ticketKind + strings.ToLower(ticketEncoding().EncodeToString(text))
}

func ticketEncoding() *base32.Encoding { return base32.StdEncoding.WithPadding(base32.NoPadding) }

// errTicket is returned by [parseTicket].
var errTicket = errors.New("freeq: no ticket of an endpoint")

// parseTicket reads the text of a ticket in the one spelling that it has. Its error
// wraps errTicket.
func parseTicket(s string) (ticket, error) {
	digits, isTicket := strings.CutPrefix(s, ticketKind)
	text, err := ticketEncoding().DecodeString(strings.ToUpper(digits))
	if !isTicket || err != nil || len(text) < 1+endpointBytes || text[0] != ticketVersion {
		return ticket{}, errTicket
	}
	endpoint, err := federation.ParsePublicKey(text[1 : 1+endpointBytes])
	if err != nil {
		return ticket{}, fmt.Errorf("%w: %w", errTicket, err)
	}
	t := ticket{endpoint: endpoint}
	r := bytes.NewReader(text[1+endpointBytes:])
	count, err := binary.ReadUvarint(r)
	if err != nil || count > maxTicketAddresses {
		return ticket{}, fmt.Errorf("%w: how many addresses", errTicket)
	}
	for range count {
		if err := readAddress(&t, r); err != nil {
			return ticket{}, fmt.Errorf("%w: %w", errTicket, err)
		}
	}
	if r.Len() > 0 || t.String() != s {
		return ticket{}, fmt.Errorf("%w: not as it is spelled", errTicket)
	}
	return t, nil
}

// readAddress reads one place of an endpoint.
func readAddress(t *ticket, r *bytes.Reader) error {
	kind, err := r.ReadByte()
	switch {
	case err != nil:
		return err
	case kind == relayAddress:
		return readRelay(t, r)
	case kind == directAddress:
		return readDirect(t, r)
	}
	return fmt.Errorf("an address of kind %d", kind)
}

func readRelay(t *ticket, r *bytes.Reader) error {
	length, err := binary.ReadUvarint(r)
	if err != nil || length > maxRelayBytes {
		return errors.New("the length of a relay")
	}
	url := make([]byte, length)
	_, err = io.ReadFull(r, url)
	t.relays = append(t.relays, string(url))
	return err
}

func readDirect(t *ticket, r *bytes.Reader) error {
	family, err := r.ReadByte()
	size := map[byte]int{ipv4Address: 4, ipv6Address: 16}[family]
	if err != nil || size == 0 {
		return errors.New("the family of an address")
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	host, _ := netip.AddrFromSlice(raw)
	port, err := binary.ReadUvarint(r)
	if err != nil || port > 1<<16-1 {
		return errors.New("a port")
	}
	t.direct = append(t.direct, netip.AddrPortFrom(host, uint16(port)))
	return nil
}
