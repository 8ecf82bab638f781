package credential

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// Sealer encrypts values that clients store for the gateway. It is safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// NewSealer returns a sealer for one purpose. The key is secret.
func NewSealer(key []byte, purpose string) Sealer {
	derived, err := hkdf.Key(sha256.New, key, nil, "baton seal "+purpose, 32)
	if err != nil {
		panic(fmt.Sprintf("credential: derive key: %v", err)) // impossible: the length is within the limit of HKDF
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(fmt.Sprintf("credential: %v", err)) // impossible: the key length is fixed
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(fmt.Sprintf("credential: %v", err)) // impossible: the block size is fixed
	}
	return Sealer{aead}
}

type sealed struct {
	Ends  int64           `json:"e"` // Unix time
	Value json.RawMessage `json:"v"`
}

// Seal encrypts a value as a text that expires at the given time.
func (s Sealer) Seal(value any, ends time.Time) (string, error) {
	text, err := json.Marshal(value)
	if err == nil {
		text, err = json.Marshal(sealed{ends.Unix(), text})
	}
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, nil)), nil //nolint:gosec // G407: the AEAD makes its own nonce
}

// Open decrypts a sealed text. The error is [ErrSealed], or [ErrSealExpired] for an expired text,
// which is still decoded.
func (s Sealer) Open(text string, now time.Time, into any) error {
	b, err := signing.DecodeBase64URL(text)
	if err == nil {
		b, err = s.aead.Open(nil, nil, b, nil)
	}
	var content sealed
	if err != nil || federation.DecodeJSON(b, &content) != nil {
		return ErrSealed
	}
	if federation.DecodeJSON(content.Value, into) != nil {
		return ErrSealed
	}
	if now.Unix() >= content.Ends {
		return ErrSealExpired
	}
	return nil
}
