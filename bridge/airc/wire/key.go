package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// Key is one key with which clients can verify messages. The key of a DID of another
// network is the one that verified last; it was never registered.
type Key struct {
	ID        string           `json:"kid"`
	Public    string           `json:"publicKey"`
	Status    agents.KeyStatus `json:"status"`
	CreatedAt *int64           `json:"createdAt"`
	ExpiresAt *int64           `json:"expiresAt"`
	RevokedAt *int64           `json:"revokedAt"`
}

// UnixTime returns unix seconds, nil for no time.
func UnixTime(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

// spkiPrefix starts an Ed25519 key in the form that X.509 gives it; the 32 bytes of
// the key follow.
const spkiPrefix = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"

// ParsePublicKey reads a public key in any of the forms that clients in use write: 32
// bytes or X.509 in base64 of either alphabet, padded or not, with "ed25519:" before
// it or not, or PEM.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	malformed := Refuse(CodeBadRequest, "the public key is no Ed25519 key that can be read")
	raw, err := decodeAnyBase64(strings.TrimPrefix(strings.TrimSpace(text), "ed25519:"))
	if block, _ := pem.Decode([]byte(text)); block != nil {
		raw, err = block.Bytes, nil
	}
	if err != nil {
		return nil, malformed
	}
	if key, ok := strings.CutPrefix(string(raw), spkiPrefix); ok {
		raw = []byte(key)
	}
	if len(raw) != rawKeyBytes {
		return nil, malformed
	}
	return identityKeyOf(raw)
}

// rawKeyBytes is the length of a key in every form.
const rawKeyBytes = 32

// ParseStrictKey reads a member of a D1 request that is a key: 32 bytes in base64url
// without padding.
func ParseStrictKey(member, text string) (ed25519.PublicKey, error) {
	raw, err := signing.DecodeBase64URL(text)
	if err != nil || len(raw) != rawKeyBytes {
		return nil, Refuse(CodeBadRequest, member+" is not 32 bytes in base64url without padding")
	}
	return identityKeyOf(raw)
}

// identityKeyOf refuses the bytes of a key that cannot be an identity.
//
// spec: airc-shapes "Who is who"
func identityKeyOf(raw []byte) (ed25519.PublicKey, error) {
	key, err := federation.ParsePublicKey(raw)
	switch {
	case errors.Is(err, federation.ErrWeakKey):
		return nil, Refuse(codeInvalidPublicKey, "the public key has small order: a signature under it needs no private key")
	case err != nil:
		return nil, Refuse(codeInvalidPublicKey, "the public key is not the canonical encoding of a point of Ed25519")
	}
	return key, nil
}

// decodeAnyBase64 reads base64 of either alphabet, padded or not.
func decodeAnyBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	return base64.RawStdEncoding.DecodeString(text)
}

// KeyText writes a key as well-known documents do.
func KeyText(key ed25519.PublicKey) string {
	return "ed25519:" + base64.StdEncoding.EncodeToString(key)
}
