package federation

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
)

// ErrKeyEncoding is returned for a non-canonical encoding of an Ed25519 point. ErrWeakKey is returned
// for a point of small order, for which anyone can forge signatures.
var (
	ErrKeyEncoding = errors.New("federation: not a canonical Ed25519 public key")
	ErrWeakKey     = errors.New("federation: an Ed25519 public key of small order proves nothing")
)

// ParsePublicKey returns the Ed25519 key encoded in raw. Use it for all external keys, because
// [ed25519.Verify] accepts non-canonical encodings and weak keys. The result does not share memory with
// raw.
//
// spec: RFC 8032 §5.1.3
func ParsePublicKey(raw []byte) (ed25519.PublicKey, error) {
	if len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrKeyEncoding, len(raw), ed25519.PublicKeySize)
	}
	point, err := new(edwards25519.Point).SetBytes(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: not a point of the curve", ErrKeyEncoding)
	}
	weak := new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1
	// A point of another order has a second encoding only if its y does: x is 0 for two points of
	// small order. Encoding a point takes as long as decoding it.
	if (weak || secondSpelling(raw)) && !bytes.Equal(point.Bytes(), raw) {
		return nil, fmt.Errorf("%w: another encoding of a point", ErrKeyEncoding)
	}
	if weak {
		return nil, ErrWeakKey
	}
	return bytes.Clone(raw), nil
}

// The y of a key, little-endian with the sign of x in its last bit, may be at least p = 2^255-19.
func secondSpelling(raw []byte) bool {
	last := len(raw) - 1
	return raw[last]&0x7f == 0x7f && raw[0] >= 0xed && bytes.Count(raw[1:last], []byte{0xff}) == last-1
}
