package signing

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"baton/federation"
)

// Scheme describes how one format signs, as data: the bytes that the signature covers, its
// encoding, and how a message names the key. All schemes are Ed25519 under the one rule of
// this package.
type Scheme struct {
	Name string // as a passport names it
	// Document returns the bytes that the signature of a message covers. The message
	// is JSON with or without its signature, but for the schemes that say otherwise.
	// It returns an error for a message without such bytes.
	Document func(message []byte) ([]byte, error)
	Encoding Encoding
	// KeyID returns the name of a key in the messages of the scheme; nil where messages name
	// the owner alone.
	KeyID func(ed25519.PublicKey) string
}

// Sign returns the signature of a message as the scheme writes it, and the bytes
// that it covers.
func (s Scheme) Sign(ctx context.Context, key federation.SigningKey, message []byte) (signature string, document []byte, err error) {
	if document, err = s.Document(message); err != nil {
		return "", nil, err
	}
	sig, err := key.Sign(ctx, document)
	if err != nil {
		return "", nil, fmt.Errorf("sign %s: %w", s.Name, err)
	}
	var kid string
	if s.Encoding.named {
		kid = s.KeyID(key.Public)
	}
	return s.Encoding.Write(kid, sig), document, nil
}

// Verify judges the signature of a message under one key. The verdict is [federation.Unverifiable] for a
// message without a canonical form, a signature of another algorithm, and a signature that names another
// key. The error says why a message has no canonical form, and is nil otherwise.
func (s Scheme) Verify(message []byte, signature string, key ed25519.PublicKey) (federation.Verdict, error) {
	document, err := s.Document(message)
	if err != nil {
		return federation.Unverifiable, err
	}
	return s.judge(document, signature, key), nil
}

// judge verifies a signature over the bytes that it must cover.
func (s Scheme) judge(document []byte, signature string, key ed25519.PublicKey) federation.Verdict {
	kid, sig, ours := s.Encoding.Read(signature)
	switch {
	case !ours, kid != "" && s.KeyID != nil && kid != s.KeyID(key):
		return federation.Unverifiable
	case !verified(key, document, sig):
		return federation.Invalid
	}
	return federation.Valid
}

// Match judges the signature of a message that does not name its scheme. It returns the first scheme under
// which the signature is valid. If there is none, the Scheme is zero, and the verdict is
// [federation.Invalid] if at least one scheme could judge the signature.
func Match(message []byte, signature string, key ed25519.PublicKey, schemes ...Scheme) (Scheme, federation.Verdict) {
	verdict := federation.Unverifiable
	for _, s := range schemes {
		judged, _ := s.Verify(message, signature, key) // a message without a canonical form in a scheme is no evidence
		switch judged {
		case federation.Valid:
			return s, federation.Valid
		case federation.Invalid:
			verdict = federation.Invalid
		case federation.Unverifiable:
		}
	}
	return Scheme{}, verdict
}

// AgentKeyID names the key of an AIRC agent: "k_" and the first 16 hexadecimal digits
// of its SHA-256.
//
// spec: airc-shapes "Rules for all"
func AgentKeyID(public ed25519.PublicKey) string { return "k_" + shortHash(public) }

// RegistryKeyID names the key of an AIRC registry, as [AgentKeyID] does with "reg_".
//
// spec: airc-shapes "Rules for all"
func RegistryKeyID(public ed25519.PublicKey) string { return "reg_" + shortHash(public) }

func shortHash(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}
