package freeq

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"baton/federation"
	"baton/federation/signing"
)

// EndpointID returns the id by which freeq servers know an endpoint: its key in
// lower-case hexadecimal.
//
// spec: freeq-s2s "Endpoint id and key file"
func EndpointID(key ed25519.PublicKey) string { return hex.EncodeToString(key) }

// parseEndpointID returns the key of an endpoint in the one spelling that peers
// compare.
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

// envelope is what every message but a greeting travels in.
//
// spec: freeq-s2s "Signed envelope"
type envelope struct {
	Type      string `json:"type"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
	Signer    string `json:"signer"`
}

// seal puts one message into an envelope.
func seal(ctx context.Context, key federation.SigningKey, m any) ([]byte, error) {
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
		Signature: base64.RawURLEncoding.EncodeToString(sig), Signer: EndpointID(key.Public),
	})
}

// open reads one line of the peer: a greeting as it stands, anything else from an
// envelope by the key that the transport has proved. It returns nil for a message
// that nothing here is for.
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
	if e.Signer != EndpointID(peer) {
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
