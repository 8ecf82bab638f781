package identity

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"baton/federation"
)

const keyPrefix = "did:key:"

// KeyDID returns the did:key of an Ed25519 key.
func KeyDID(key ed25519.PublicKey) federation.DID {
	return PublicKeyDID(federation.PublicKey{Kind: federation.Ed25519, Bytes: key})
}

// PublicKeyDID returns the did:key of a key.
func PublicKeyDID(key federation.PublicKey) federation.DID {
	return federation.DID(keyPrefix + writeMultibase(key))
}

// ParsePublicKeyDID returns the key of a did:key. A key of an unknown kind, a point that is not on its
// curve, and any second spelling of a key are errors.
//
// spec: did-method-key §3.1.2
func ParsePublicKeyDID(did federation.DID) (federation.PublicKey, error) {
	text, ok := strings.CutPrefix(string(did), keyPrefix)
	if !ok {
		return federation.PublicKey{}, fmt.Errorf("parse %s: not a did:key", did.Short())
	}
	key, err := parseMultibase(text)
	if err != nil {
		return federation.PublicKey{}, fmt.Errorf("parse %s: %w", did.Short(), err)
	}
	return key, nil
}

// errNotEd25519 says that a key is well formed and of a kind that signs no steps.
var errNotEd25519 = errors.New("not an Ed25519 key")

// ParseKeyDID is [ParsePublicKeyDID] for keys that sign steps: only Ed25519 keys do.
func ParseKeyDID(did federation.DID) (ed25519.PublicKey, error) {
	key, err := ParsePublicKeyDID(did)
	if err != nil {
		return nil, err
	}
	if key.Kind != federation.Ed25519 {
		return nil, fmt.Errorf("parse %s: %w", did.Short(), errNotEd25519)
	}
	return key.Bytes, nil
}

// CheckDID returns the reason why a DID can never be proved: a did:key, did:plc or did:web that
// violates its method, or a did:key of an unsupported kind. It makes no request.
func CheckDID(did federation.DID) error {
	var err error
	switch did.Method() {
	case "key":
		_, err = ParsePublicKeyDID(did)
		return err
	case "plc":
		if !isPLC(did) {
			err = errNoPLC
		}
	case "web":
		_, _, err = webAddress(did)
	}
	if err != nil {
		return fmt.Errorf("parse %s: %w", did.Short(), err)
	}
	return nil
}
