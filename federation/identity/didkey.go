package identity

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/mr-tron/base58"

	"baton/federation"
)

// What stands before the 32 bytes of a key in its multibase form: the varint of
// multicodec ed25519-pub.
const multicodecEd25519 = "\xed\x01"

// maxMultibaseBytes bounds what is decoded: 34 bytes take 48 characters and the
// prefix. Decoding base58 costs the square of its length.
const maxMultibaseBytes = 49

// KeyDID returns the did:key of a key.
func KeyDID(key ed25519.PublicKey) federation.DID {
	return federation.DID("did:key:" + multibase(key))
}

// ParseKeyDID returns the key that a did:key names. A key of another kind than
// Ed25519, and any second spelling of one, is an error.
//
// spec: did-method-key §3.1.2
func ParseKeyDID(did federation.DID) (ed25519.PublicKey, error) {
	text, ok := strings.CutPrefix(string(did), "did:key:")
	if !ok {
		return nil, fmt.Errorf("parse %s: not a did:key", did.Short())
	}
	key, err := parseMultibase(text)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", did.Short(), err)
	}
	return key, nil
}

// multibase writes a key as "z6Mk…".
func multibase(key ed25519.PublicKey) string {
	return "z" + base58.Encode(append([]byte(multicodecEd25519), key...))
}

// errNotEd25519 says that a key is well formed and of a kind that signs no steps.
var errNotEd25519 = errors.New("not an Ed25519 key")

// parseMultibase reads "z6Mk…". It returns [errNotEd25519] for a key of another kind.
func parseMultibase(text string) (ed25519.PublicKey, error) {
	digits, ok := strings.CutPrefix(text, "z")
	if !ok {
		return nil, errors.New("want a key in base58btc, which starts with z")
	}
	if len(text) > maxMultibaseBytes {
		return nil, fmt.Errorf("%w: too long", errNotEd25519)
	}
	raw, err := base58.Decode(digits)
	if err != nil {
		return nil, fmt.Errorf("decode base58btc: %w", err)
	}
	key, ok := strings.CutPrefix(string(raw), multicodecEd25519)
	if !ok || len(key) != ed25519.PublicKeySize {
		return nil, errNotEd25519
	}
	if multibase(ed25519.PublicKey(key)) != text {
		return nil, federation.ErrNotCanonical
	}
	return ed25519.PublicKey(key), nil
}
