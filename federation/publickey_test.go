package federation_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// The four encodings of order 8 as hexadecimal digits; the other encodings of small
// order follow from y = 0, 1 and -1.
const (
	order8Low  = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
	order8High = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
)

func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func encodeY(y *big.Int, sign byte) []byte {
	raw := y.FillBytes(make([]byte, 32))
	slices.Reverse(raw)
	raw[31] |= sign << 7
	return raw
}

// fieldPrime is 2^255 - 19.
func fieldPrime() *big.Int {
	p := new(big.Int).Lsh(big.NewInt(1), 255)
	return p.Sub(p, big.NewInt(19))
}

// smallOrder returns the 14 encodings of points of small order that ed25519.Verify
// accepts, and whether each is the canonical one.
func smallOrder(t *testing.T) map[string]bool {
	t.Helper()
	encodings := map[string]bool{}
	for _, c := range []struct {
		offset    int64 // y = p*wraps + offset
		wraps     int64
		canonical [2]bool // by sign bit
	}{
		{0, 0, [2]bool{true, true}},   // order 4
		{1, 0, [2]bool{true, false}},  // the identity: x = 0 has no sign
		{-1, 1, [2]bool{true, false}}, // order 2, the same
		{0, 1, [2]bool{}},             // y = p
		{1, 1, [2]bool{}},             // y = p + 1
	} {
		y := new(big.Int).Mul(fieldPrime(), big.NewInt(c.wraps))
		y.Add(y, big.NewInt(c.offset))
		for sign, canonical := range c.canonical {
			encodings[string(encodeY(y, byte(sign)))] = canonical
		}
	}
	for _, digits := range []string{order8Low, order8High} {
		raw := unhex(t, digits)
		encodings[string(raw)] = true
		raw[31] |= 0x80
		encodings[string(raw)] = true
	}
	return encodings
}

func TestPublicKeyOfSmallOrderIsRefused(t *testing.T) {
	encodings := smallOrder(t)
	if len(encodings) != 14 {
		t.Fatalf("%d encodings of small order, want 14", len(encodings))
	}
	for encoding, canonical := range encodings {
		want := federation.ErrWeakKey
		if !canonical {
			want = federation.ErrKeyEncoding
		}
		if key, err := federation.ParsePublicKey([]byte(encoding)); !errors.Is(err, want) || key != nil {
			t.Errorf("key %x: %v, %v, want %v", encoding, key, err, want)
		}
		if !verifiesWithoutSecret([]byte(encoding)) {
			t.Errorf("key %x: no signature made without a private key verifies, so this case shows nothing", encoding)
		}
	}
}

// verifiesWithoutSecret reports whether ed25519.Verify accepts, for one of some messages,
// a signature that no private key made: R is a point of small order, S is zero.
func verifiesWithoutSecret(key ed25519.PublicKey) bool {
	identity := append([]byte{1}, make([]byte, 31)...)
	for n := range 256 {
		if ed25519.Verify(key, fmt.Appendf(nil, "message %d", n), append(slices.Clone(identity), make([]byte, 32)...)) {
			return true
		}
	}
	return false
}

func TestPublicKeyBeyondTheFieldIsRefused(t *testing.T) {
	y, end := fieldPrime(), new(big.Int).Lsh(big.NewInt(1), 255)
	tried := 0
	for ; y.Cmp(end) < 0; y.Add(y, big.NewInt(1)) {
		for sign := range byte(2) {
			tried++
			if key, err := federation.ParsePublicKey(encodeY(y, sign)); !errors.Is(err, federation.ErrKeyEncoding) {
				t.Errorf("y = %v, sign %d: %v, %v, want %v", y, sign, key, err, federation.ErrKeyEncoding)
			}
		}
	}
	if tried != 38 {
		t.Errorf("%d encodings tried, want 38", tried)
	}
}

func TestPublicKeyOfAnotherLengthIsRefused(t *testing.T) {
	key, _, _ := ed25519.GenerateKey(nil)
	for _, raw := range [][]byte{nil, {}, key[:31], append(slices.Clone(key), 0), make([]byte, 64)} {
		if got, err := federation.ParsePublicKey(raw); !errors.Is(err, federation.ErrKeyEncoding) {
			t.Errorf("%d bytes: %v, %v, want %v", len(raw), got, err, federation.ErrKeyEncoding)
		}
	}
}

func TestPublicKeyOffTheCurveIsRefused(t *testing.T) {
	// y = 2 and y = 7: (y^2-1)/(d*y^2+1) has no square root.
	for _, y := range []int64{2, 7} {
		if key, err := federation.ParsePublicKey(encodeY(big.NewInt(y), 0)); !errors.Is(err, federation.ErrKeyEncoding) {
			t.Errorf("y = %d: %v, %v, want %v", y, key, err, federation.ErrKeyEncoding)
		}
	}
}

func TestPublicKeyIsParsedAndCopied(t *testing.T) {
	for range 64 {
		key, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		raw := slices.Clone(key)
		parsed, err := federation.ParsePublicKey(raw)
		if err != nil || !parsed.Equal(key) {
			t.Fatalf("key %x: %x, %v", key, parsed, err)
		}
		raw[0]++
		if !parsed.Equal(key) {
			t.Fatal("the parsed key shares its memory with the input")
		}
	}
}
