package freeq

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// Peers compare the ID in its canonical spelling.
func parseEndpointID(id string) (ed25519.PublicKey, error) {
	raw, err := hex.DecodeString(id)
	if err != nil || hex.EncodeToString(raw) != id {
		return nil, fmt.Errorf("endpoint id %q: %w: want 64 lower-case hexadecimal digits", id, federation.ErrNotCanonical)
	}
	key, err := federation.ParsePublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("endpoint id %q: %w", id, err)
	}
	return key, nil
}

// envelope carries every message except a greeting.
//
// spec: freeq-s2s "Signed envelope"
type envelope struct {
	Type      string `json:"type"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
	Signer    string `json:"signer"`
}

func signEnvelope(ctx context.Context, key federation.SigningKey, m any) ([]byte, error) {
	inner, err := encode(m)
	if err != nil {
		return nil, err
	}
	sig, err := key.Sign(ctx, inner)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	return encode(envelope{
		Type: typeSigned, Payload: base64.RawURLEncoding.EncodeToString(inner),
		Signature: base64.RawURLEncoding.EncodeToString(sig), Signer: identity.EndpointID(key.Public),
	})
}

// A greeting is plain; any other line is in an envelope signed with the key that the transport
// verified. The result is nil for an irrelevant message.
func open(line []byte, peer ed25519.PublicKey) (any, reason) {
	var e envelope
	if err := federation.DecodeJSON(line, &e); err != nil {
		return nil, malformed
	}
	if e.Type != typeSigned {
		if e.Type != typeHello && e.Type != typeHelloAck {
			return nil, unsigned
		}
		return read(line)
	}
	if e.Signer != identity.EndpointID(peer) {
		return nil, badEnvelope
	}
	inner, err := signing.DecodeBase64URL(e.Payload)
	if err != nil {
		return nil, badEnvelope
	}
	sig, err := signing.DecodeBase64URL(e.Signature)
	if err != nil || len(sig) != ed25519.SignatureSize || !ed25519.Verify(peer, inner, sig) {
		return nil, badEnvelope
	}
	return read(inner)
}

// spec: freeq-s2s "Ticket"
const (
	ticketKind    = "endpoint"
	ticketVersion = 0
	relayAddress  = 0
	directAddress = 1
	ipv4Address   = 0
	ipv6Address   = 1
	endpointBytes = 32
)

const (
	maxTicketAddresses = 64
	maxRelayBytes      = 2048
)

// Without an address, the program searches by ID.
type ticket struct {
	endpoint ed25519.PublicKey
	relays   []string
	direct   []netip.AddrPort
}

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

var errTicket = errors.New("freeq: not an endpoint ticket")

// The error wraps errTicket.
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
