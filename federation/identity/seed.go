package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"baton/federation"
)

// ReadSeed reads the key of a person from a file with its seed in hexadecimal, which only its owner may
// read. The DID is the did:key.
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

// NewPerson returns a new key that no file keeps. The DID is the did:key.
func NewPerson() federation.SigningKey { return signingKey(newSeed("")) }
