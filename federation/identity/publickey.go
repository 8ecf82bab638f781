package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secp256k1ecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/mr-tron/base58"

	"github.com/baton-gateway/baton/federation"
)

const pointBytes = 33

// The prefix is the varint of ed25519-pub, p256-pub or secp256k1-pub. The size is that of the key.
func multicodec(kind federation.KeyKind) (prefix string, size int) {
	switch kind {
	case federation.Ed25519:
		return "\xed\x01", ed25519.PublicKeySize //nolint:forbidigo // a size of the format; checkPoint parses the key
	case federation.P256:
		return "\x80\x24", pointBytes
	case federation.Secp256k1:
		return "\xe7\x01", pointBytes
	}
	return "", 0
}

// A point takes 50 characters. The cost of decoding base58 grows with the square of the length.
const maxMultibaseBytes = 50

// The key is well-formed.
var errOtherKind = errors.New("a key of another kind")

// The result starts with "z6Mk", "zDn" or "zQ3s".
func writeMultibase(key federation.PublicKey) string {
	prefix, _ := multicodec(key.Kind)
	return "z" + base58.Encode(append([]byte(prefix), key.Bytes...))
}

// The error is [errOtherKind] for an unknown kind.
func parseMultibase(text string) (federation.PublicKey, error) {
	digits, ok := strings.CutPrefix(text, "z")
	if !ok {
		return federation.PublicKey{}, errors.New("want a key in base58btc, which starts with z")
	}
	if len(text) > maxMultibaseBytes {
		return federation.PublicKey{}, fmt.Errorf("%w: too long", errOtherKind)
	}
	raw, err := base58.Decode(digits)
	if err != nil {
		return federation.PublicKey{}, fmt.Errorf("decode base58btc: %w", err)
	}
	key, err := parseMulticodec(string(raw))
	if err != nil {
		return federation.PublicKey{}, err
	}
	if writeMultibase(key) != text {
		return federation.PublicKey{}, federation.ErrNotCanonical
	}
	return key, nil
}

func parseMulticodec(raw string) (federation.PublicKey, error) {
	for _, kind := range []federation.KeyKind{federation.Ed25519, federation.P256, federation.Secp256k1} {
		prefix, size := multicodec(kind)
		text, ok := strings.CutPrefix(raw, prefix)
		if !ok || len(text) != size {
			continue
		}
		key := federation.PublicKey{Kind: kind, Bytes: []byte(text)}
		if err := checkPoint(key); err != nil {
			return federation.PublicKey{}, err
		}
		return key, nil
	}
	return federation.PublicKey{}, errOtherKind
}

// A point must be compressed and on its curve. An Ed25519 key must pass [federation.ParsePublicKey].
func checkPoint(key federation.PublicKey) error {
	switch key.Kind {
	case federation.P256:
		if _, ok := parseP256(key.Bytes); ok {
			return nil
		}
	case federation.Secp256k1:
		if _, err := secp256k1.ParsePubKey(key.Bytes); err == nil {
			return nil
		}
	case federation.Ed25519:
		_, err := federation.ParsePublicKey(key.Bytes)
		return err
	}
	return fmt.Errorf("the point is not on %s", key.Kind)
}

func checkCoordinate(key federation.PublicKey, y []byte) error {
	var same bool
	switch key.Kind {
	case federation.P256:
		_, full := elliptic.UnmarshalCompressed(elliptic.P256(), key.Bytes)
		same = full != nil && full.Cmp(new(big.Int).SetBytes(y)) == 0
	case federation.Secp256k1:
		public, err := secp256k1.ParsePubKey(key.Bytes)
		same = err == nil && public.Y().Cmp(new(big.Int).SetBytes(y)) == 0
	case federation.Ed25519:
	}
	if !same {
		return fmt.Errorf("the point is not on %s", key.Kind)
	}
	return nil
}

func parseP256(point []byte) (*ecdsa.PublicKey, bool) {
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), point)
	if x == nil {
		return nil, false
	}
	const size = pointBytes - 1 // of one coordinate
	uncompressed := append([]byte{4}, x.FillBytes(make([]byte, size))...)
	uncompressed = append(uncompressed, y.FillBytes(make([]byte, size))...)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), uncompressed)
	return key, err == nil
}

// The values r and s, 32 bytes each.
const ecdsaBytes = 64

// Signed reports whether a key signed a message: Ed25519 over the message, ECDSA over its SHA-256.
func Signed(key federation.PublicKey, message, signature []byte) bool {
	if key.Kind == federation.Ed25519 {
		return ed25519.Verify(key.Bytes, message, signature)
	}
	return verifyECDSA(key, message, signature)
}

// Each signature has an equivalent one, derivable without the key. Both are accepted.
func verifyECDSA(key federation.PublicKey, message, signature []byte) bool {
	if len(signature) != ecdsaBytes {
		return false
	}
	digest := sha256.Sum256(message)
	switch key.Kind {
	case federation.P256:
		public, ok := parseP256(key.Bytes)
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		return ok && ecdsa.Verify(public, digest[:], r, s)
	case federation.Secp256k1:
		public, err := secp256k1.ParsePubKey(key.Bytes)
		var r, s secp256k1.ModNScalar
		over := r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:])
		return err == nil && !over && secp256k1ecdsa.NewSignature(&r, &s).Verify(digest[:], public)
	case federation.Ed25519:
	}
	return false
}

// Of two equivalent signatures, one has the lower s.
func hasLowS(key federation.PublicKey, signature []byte) bool {
	order := elliptic.P256().Params().N
	if key.Kind == federation.Secp256k1 {
		order = secp256k1.Params().N
	}
	s := new(big.Int).SetBytes(signature[len(signature)/2:])
	return s.Cmp(new(big.Int).Rsh(order, 1)) <= 0
}

const keyPrefix = "did:key:"

// KeyDID returns the did:key of an Ed25519 key.
func KeyDID(key ed25519.PublicKey) federation.DID {
	return PublicKeyDID(federation.PublicKey{Kind: federation.Ed25519, Bytes: key})
}

// PublicKeyDID returns the did:key of a key.
func PublicKeyDID(key federation.PublicKey) federation.DID {
	return federation.DID(keyPrefix + writeMultibase(key))
}

// ParsePublicKeyDID returns the key of a did:key. It rejects unknown kinds, points off their curve, and
// non-canonical spellings.
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

// The key is well-formed, but signs no steps.
var errNotEd25519 = errors.New("not an Ed25519 key")

// ParseKeyDID is a [ParsePublicKeyDID] for Ed25519 keys.
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

// CheckDID returns the reason why a DID can never be proved: it violates its method, or its key is of
// an unsupported kind. It makes no request.
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

// ReadSeed reads a person's key from a file with its seed in hexadecimal, readable only by its owner.
// The DID is the did:key.
func ReadSeed(path string) (federation.SigningKey, error) {
	fail := func(err error) (federation.SigningKey, error) {
		return federation.SigningKey{}, fmt.Errorf("read key %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail(err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fail(fmt.Errorf("others have access (mode %04o): chmod 600 it", mode))
	}
	text, err := os.ReadFile(path) //nolint:gosec // the caller names the file
	if err != nil {
		return fail(err)
	}
	seed, err := hex.DecodeString(string(bytes.TrimSuffix(text, []byte("\n"))))
	if err != nil || len(seed) != ed25519.SeedSize {
		return fail(errors.New("want 64 hexadecimal characters and nothing else"))
	}
	return signingKey(seed), nil
}

// NewPerson returns a new key. The DID is the did:key.
func NewPerson() federation.SigningKey { return signingKey(newSeed("")) }
