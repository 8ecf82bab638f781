// Package signing writes the canonical documents that signatures cover, and verifies signatures. Its
// functions are pure, except that some ask a [federation.KeySource] for keys.
//
// A [Scheme] describes how one format signs: which bytes, how the signature is written, how
// the key is named. Steps in the tags of IRC have two schemes, one for each dialect. They are
// most of the traffic, so they have functions of their own: [Document], [Verify], [Seal].
// AIRC messages have [Envelope], [VerifyEnvelope] and [SignEnvelope].
//
// Every scheme is Ed25519 over RFC 8785 JSON, except for a few old ones. A text that two JSON readers could
// read as different values has no canonical form, except for numbers beyond ±2^53, which RFC 8785 writes
// as the nearest double.
//
// Guarantees:
//
//   - All verification follows one rule, that of the standard library, so that two homes never disagree
//     about a signature: the equation without the cofactor, S below the group order, and R compared as
//     bytes.
//   - No signature is valid under a key that [federation.ParsePublicKey] refuses: small
//     order, or no canonical encoding.
//   - A key that cannot be found makes a signature unverifiable, never invalid.
//
// spec: handofftag "Canonical document"; airc-v0.1.1 §6
package signing

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"baton/federation"
)

// Document returns the canonical document of a step: its signed fields, the DID of the signer, the venue,
// and the event ID if the signature covers it. In the act dialect it always does.
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

// Canonical returns the document that a signature covers: a JSON object of strings, with the fields, the
// signer as "from", the venue as "target" and the id if there is one. It is the same in both dialects.
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
	canonical, err := canonicalObject(members)
	if err != nil {
		return "", fmt.Errorf("canonical document: %w", err)
	}
	return string(canonical), nil
}

// Seal signs a step with a key that the gateway keeps. The signature covers the id.
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
		Text: inTag().Write(kid, sig),
	}
	return ev, nil
}
