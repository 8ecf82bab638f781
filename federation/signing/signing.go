// Package signing makes the canonical documents that signatures cover and says
// what a signature is worth. It is pure but for the [federation.KeySource] that
// it asks for keys.
//
// Two schemes: a step in the tags of IRC, in either dialect ([Document], [Verify],
// [Seal]), and an AIRC message envelope ([Envelope], [VerifyEnvelope],
// [SignEnvelope]). Both are Ed25519 over RFC 8785 JSON. One rule of verification
// holds everywhere, that of the standard library: cofactorless, with canonical
// encodings alone, so that two homes never disagree about one signature.
//
// spec: handofftag "Canonical document"; airc-v0.1.1 §6
package signing

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"baton/federation"
)

// algorithm is the prefix of a signature on the wire, with its separator.
const algorithm = "ed25519:"

// Document returns the canonical document of a step: its signed fields, the DID
// of the signer, the venue, and the event ID where the signature covers that. In
// the act dialect it always does.
func Document(ev federation.Event) (string, error) {
	if ev.From == "" || ev.Venue == "" || ev.Handoff.IsZero() || ev.Dialect == federation.ActTags && !ev.Stamped {
		return "", errors.New("canonical document: signer, venue and ids are needed")
	}
	var id string
	if ev.Stamped {
		id = ev.ID.String()
	}
	return Canonical(ev.Fields, ev.From, ev.Venue, id)
}

// Canonical returns the document that a signature covers: a JSON object of
// strings, the fields with the signer as "from", the venue as "target" and, where
// there is one, the id. It is the same in both dialects.
//
// spec: handofftag "Canonical document"; freeq-act "Canonical document"
func Canonical(fields map[string]string, from federation.DID, target, id string) (string, error) {
	members := make(map[string]string, len(fields)+3)
	for name, value := range fields {
		if !utf8.ValidString(value) || !utf8.ValidString(name) {
			return "", fmt.Errorf("canonical document: field %q is not UTF-8", name)
		}
		members[name] = value
	}
	members["from"], members["target"] = string(from), target
	if id != "" {
		members["id"] = id
	}
	text, err := json.Marshal(members)
	if err != nil {
		return "", fmt.Errorf("canonical document: %w", err)
	}
	canonical, err := jcs.Transform(text)
	if err != nil {
		return "", fmt.Errorf("canonical document: %w", err)
	}
	return string(canonical), nil
}

// Seal signs a step with a key in the gateway's keeping: the id becomes part of
// what is signed.
func Seal(ctx context.Context, key federation.SigningKey, ev federation.Event) (federation.Event, error) {
	ev.Stamped = true
	document, err := Document(ev)
	if err != nil {
		return ev, err
	}
	sig, err := key.Sign(ctx, []byte(document))
	if err != nil {
		return ev, fmt.Errorf("sign step %s: %w", ev.ID, err)
	}
	kid := federation.KeyID(key.Public)
	ev.Signature = federation.Signature{
		KeyID: kid, Bytes: sig, Document: document, Key: key.Public,
		Text: algorithm + kid + ":" + base64.RawURLEncoding.EncodeToString(sig),
	}
	return ev, nil
}

// parse reads a signature as it stands on the wire: "ed25519:<kid>:<base64url>",
// or the RFC's "ed25519:<base64>" without key id, in either alphabet and padded
// or not. The result ours is false for another algorithm, which is not ours to
// judge; bytes of another length than 64 never verify.
func parse(text string) (kid string, sig []byte, ours bool) {
	rest, ours := strings.CutPrefix(text, algorithm)
	if !ours {
		return "", nil, false
	}
	if id, encoded, ok := strings.Cut(rest, ":"); ok {
		sig, _ = DecodeBase64URL(encoded) // nil never verifies
		return id, sig, true
	}
	encoded := strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(rest), "=")
	sig, _ = base64.RawURLEncoding.DecodeString(encoded)
	return "", sig, true
}

// DecodeBase64URL decodes base64url without padding, strictly: bits that no byte
// uses must be zero, so that one value has one spelling.
func DecodeBase64URL(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return nil, errors.New("decode base64url: line break")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("decode base64url: %w", err)
	}
	return raw, nil
}

// verified reports whether a key signed a document.
func verified(key ed25519.PublicKey, document, sig []byte) bool {
	return len(key) == ed25519.PublicKeySize && len(sig) == ed25519.SignatureSize && ed25519.Verify(key, document, sig)
}
