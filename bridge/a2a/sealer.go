package a2a

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"baton/bridge"
	"baton/federation"
)

// sealKeyBytes is the length of a key of AES-256.
const sealKeyBytes = 32

// sealer seals the secrets of push configurations, so that neither the record nor a copy of it
// shows them.
type sealer struct{ aead cipher.AEAD }

// newSealer returns the sealer of a key of the gateway.
func newSealer(key []byte) (sealer, error) {
	own, err := hkdf.Key(sha256.New, key, nil, "baton a2a push", sealKeyBytes)
	if err != nil {
		return sealer{}, fmt.Errorf("make key of push configurations: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return sealer{}, fmt.Errorf("make key of push configurations: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

func (s sealer) seal(secrets pushSecrets) ([]byte, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("seal push configuration: %w", err)
	}
	return s.aead.Seal(nil, nil, text, nil), nil //nolint:gosec // G407: the AEAD makes each nonce itself
}

func (s sealer) open(sealed []byte) (secrets pushSecrets, err error) {
	text, err := s.aead.Open(nil, nil, sealed, nil)
	if err == nil {
		err = federation.DecodeJSON(text, &secrets)
	}
	if err != nil { // the secret key of the gateway is another one than before
		return secrets, fmt.Errorf("%w: open push configuration: %w", bridge.ErrBroken, err)
	}
	return secrets, nil
}
