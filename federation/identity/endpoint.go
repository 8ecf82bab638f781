package identity

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"baton/federation"
)

// OpenEndpoint returns the endpoint key in an existing folder of keys, with its seed in hexadecimal
// for the transport program. The first call makes the key. Its ID starts with 00, which makes it
// smaller than most IDs, and such a key is found quickly.
//
// spec: freeq-s2s "Endpoint id and key file"
func OpenEndpoint(dir string) (key federation.SigningKey, seed string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return federation.SigningKey{}, "", fmt.Errorf("open endpoint key: %w", err)
	}
	defer root.Close()
	if err := makeEndpoint(root); err != nil {
		return federation.SigningKey{}, "", fmt.Errorf("make endpoint key: %w", err)
	}
	secret, err := readKey(root, string(EndpointKey))
	if err != nil {
		return federation.SigningKey{}, "", fmt.Errorf("read key %s: %w", filepath.Join(dir, string(EndpointKey)), err)
	}
	return signingKey(secret), hex.EncodeToString(secret), nil
}

// makeEndpoint creates the endpoint key if there is none.
func makeEndpoint(root *os.Root) error {
	if _, err := root.Lstat(string(EndpointKey)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := linkFile(root, string(EndpointKey), secretText(newSeed("00")))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
