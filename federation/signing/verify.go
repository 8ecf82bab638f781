package signing

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"baton/federation"
)

// Verify judges the signature of a step against the keys that its From had when the step was
// received. It fills in the document, the key id and the key.
//
// The error is nil for [federation.Valid] alone. It is a [*federation.RefusalError] for a
// step without a signature, with a signature that fails, with the key of another DID, from a
// did:key whose key cannot be an identity ([federation.InvalidTag]), and with a signature
// that cannot be judged now ([federation.SignatureUnverifiable]). Any other error is the
// error of the record behind the key source.
func Verify(ctx context.Context, keys federation.KeySource, ev federation.Event) (federation.Event, federation.Verdict, error) {
	if ev.Signature.Text == "" {
		return ev, federation.Unverifiable, federation.Refuse(ev, federation.NeedSignature, "")
	}
	document, err := Document(ev)
	if err != nil {
		return ev, federation.Unverifiable, federation.Refuse(ev, federation.MissingRequirement, "from, venue and handoff id")
	}
	ev.Signature.Document = document
	kid, sig, ours := parse(ev.Signature.Text)
	if !ours {
		return ev, federation.Unverifiable, federation.Refuse(ev, federation.SignatureUnverifiable, "want ed25519")
	}
	ev.Signature.KeyID, ev.Signature.Bytes = kid, sig
	known, err := keys.Keys(ctx, query(ev, kid))
	if errors.Is(err, federation.ErrKeyEnded) {
		return ev, federation.Invalid, federation.Refuse(ev, federation.SignatureInvalid, "its key had been taken back")
	}
	if ev.From.Method() == "key" && (errors.Is(err, federation.ErrWeakKey) || errors.Is(err, federation.ErrKeyEncoding)) {
		return ev, federation.Invalid, federation.Refuse(ev, federation.InvalidTag, "the did:key in from cannot be an identity")
	}
	if err != nil {
		return ev, federation.Unverifiable, unverifiable(ev, err)
	}
	var candidates int
	for _, key := range known {
		if kid != "" && kid != federation.KeyID(key) {
			continue
		}
		candidates++
		if verified(key, []byte(document), sig) {
			ev.Signature.Key, ev.Signature.KeyID = key, federation.KeyID(key)
			return ev, federation.Valid, nil
		}
	}
	if candidates > 0 {
		return ev, federation.Invalid, federation.Refuse(ev, federation.SignatureInvalid, "")
	}
	return judgeStrangeKey(ctx, keys, ev)
}

// Query returns the query of [Verify] to a key source about a step. The result ok is false for a step that
// needs no query.
func Query(ev federation.Event) (q federation.KeyQuery, ok bool) {
	if ev.Signature.Text == "" || ev.From == "" {
		return federation.KeyQuery{}, false
	}
	kid, _, ours := parse(ev.Signature.Text)
	return query(ev, kid), ours
}

func query(ev federation.Event, kid string) federation.KeyQuery {
	return federation.KeyQuery{
		DID: ev.From, KeyID: kid, Link: ev.Arrival.Link, Name: ev.Arrival.Name, Received: ev.Arrival.Received,
	}
}

// judgeStrangeKey refuses a key that is known to belong to another DID. An unknown key is no evidence.
func judgeStrangeKey(ctx context.Context, keys federation.KeySource, ev federation.Event) (federation.Event, federation.Verdict, error) {
	if ev.Signature.KeyID == "" {
		return ev, federation.Unverifiable, federation.Refuse(ev, federation.SignatureUnverifiable, "")
	}
	owner, err := keys.KeyOwner(ctx, ev.Signature.KeyID)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return ev, federation.Unverifiable, federation.Refuse(ev, federation.SignatureUnverifiable, "")
	case err != nil:
		return ev, federation.Unverifiable, fmt.Errorf("find owner of key %s: %w", ev.Signature.KeyID, err)
	case owner != ev.From:
		return ev, federation.Invalid, federation.Refuse(ev, federation.ActorMismatch, "")
	}
	return ev, federation.Unverifiable, federation.Refuse(ev, federation.SignatureUnverifiable, "")
}

// NamedKey returns the key id in the wire form of the signature of a step; "" for none.
func NamedKey(text string) string {
	kid, _, _ := inTag().Read(text)
	return kid
}

// unverifiable joins the refusal for the sender with the reason for the operator.
func unverifiable(ev federation.Event, cause error) error {
	return errors.Join(federation.Refuse(ev, federation.SignatureUnverifiable, ""), fmt.Errorf("keys of %s: %w", ev.From, cause))
}

// VerifyEnvelope judges the base64url signature of an AIRC envelope under one
// key. The error says why the envelope has no canonical form.
func VerifyEnvelope(envelope []byte, signature string, key ed25519.PublicKey) (federation.Verdict, error) {
	return Message().Verify(envelope, signature, key)
}

// verified reports whether a key signed a document. It refuses keys of small order, for which signatures
// need no private key: an old record may have such a key.
func verified(key ed25519.PublicKey, document, sig []byte) bool {
	public, err := federation.ParsePublicKey(key)
	return err == nil && len(sig) == ed25519.SignatureSize && ed25519.Verify(public, document, sig)
}
