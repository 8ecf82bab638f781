package signing

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/baton-gateway/baton/federation"
)

// Verify verifies the signature of a step with the keys of its From at the time of its arrival. It
// fills in the document, the key ID and the key.
//
// The error is nil only for [federation.Valid]. It is a [*federation.RefusalError] for a missing or
// invalid signature and for the key of another DID. Its code is [federation.InvalidTag] for a did:key
// whose key cannot be an identity, and [federation.SignatureUnverifiable] if the signature cannot be
// judged now. Any other error comes from the record behind the key source.
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
		return ev, federation.Invalid, federation.Refuse(ev, federation.SignatureInvalid, "its key was revoked")
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

// Query returns the key query of [Verify] for a step, or false if the step needs none.
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

// Only a key known to belong to another DID is refused.
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

// NamedKey returns the key ID in a step's signature, or "".
func NamedKey(text string) string {
	kid, _, _ := inTag().Read(text)
	return kid
}

// The refusal is for the sender, and the cause for the operator.
func unverifiable(ev federation.Event, cause error) error {
	return errors.Join(federation.Refuse(ev, federation.SignatureUnverifiable, ""), fmt.Errorf("keys of %s: %w", ev.From, cause))
}

// VerifyEnvelope verifies the base64url signature of an AIRC envelope under one key. The error
// explains why the envelope has no canonical form.
func VerifyEnvelope(envelope []byte, signature string, key ed25519.PublicKey) (federation.Verdict, error) {
	return Message().Verify(envelope, signature, key)
}

// An old record may have a key of small order, for which signatures need no private key.
func verified(key ed25519.PublicKey, document, sig []byte) bool {
	public, err := federation.ParsePublicKey(key)
	return err == nil && len(sig) == ed25519.SignatureSize && ed25519.Verify(public, document, sig)
}

// VerifyAgain returns an error for a filed step whose signature is no longer valid. It is
// deterministic: it uses the key of a did:key, from didKey, or otherwise the key in the step.
func VerifyAgain(ctx context.Context, ev federation.Event, didKey func(federation.DID) (ed25519.PublicKey, error)) error {
	key := filedKey{ev, didKey}
	again, _, err := Verify(ctx, key, ev)
	switch {
	case err != nil:
		return err
	case again.Signature.Document != ev.Signature.Document:
		return errors.New("the signed content differs from the step")
	case !bytes.Equal(again.Signature.Bytes, ev.Signature.Bytes):
		return errors.New("the signature is not that of the wire")
	}
	return nil
}

type filedKey struct {
	ev     federation.Event
	didKey func(federation.DID) (ed25519.PublicKey, error)
}

// Keys implements [federation.KeySource].
func (k filedKey) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, err := k.didKey(q.DID); err == nil {
		return []ed25519.PublicKey{key}, nil
	}
	key, err := federation.ParsePublicKey(k.ev.Signature.Key)
	if err != nil {
		return nil, fmt.Errorf("no key of %s is on record: %w", q.DID, err)
	}
	return []ed25519.PublicKey{key}, nil
}

// KeyOwner implements [federation.KeySource].
func (filedKey) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// Reader parses the step in a canonical document. It returns a [*federation.RefusalError] if the
// document is not a step.
type Reader func(document string) (federation.Event, error)

// Open verifies a step like [Verify], and reads the members of a valid step from its document. It
// discards other members set by a codec, except an unsigned ID, provenance, evidence and arrival.
func Open(ctx context.Context, keys federation.KeySource, read Reader, ev federation.Event) (federation.Event, federation.Verdict, error) {
	ev, verdict, err := Verify(ctx, keys, ev)
	if err != nil {
		return ev, verdict, err
	}
	ev, err = Signed(read, ev)
	return ev, verdict, err
}

// Signed returns a verified step with the members of its document.
func Signed(read Reader, ev federation.Event) (federation.Event, error) {
	signed, err := read(ev.Signature.Document)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return ev, federation.Refuse(ev, refused.Code, refused.Detail)
	}
	if err != nil {
		return ev, federation.Refuse(ev, federation.InvalidTag, fmt.Sprintf("the signed document is not a step: %v", err))
	}
	if !signed.Stamped {
		signed.ID = ev.ID
	}
	signed.Provenance, signed.Signature, signed.Evidence, signed.Erased, signed.Arrival = ev.Provenance, ev.Signature, ev.Evidence, ev.Erased, ev.Arrival
	return signed, nil
}
