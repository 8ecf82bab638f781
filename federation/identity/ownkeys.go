package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// KeyName names one of the gateway's own keys, and its file.
type KeyName string

// The gateway's own keys.
const (
	ServerKey   KeyName = "server"   // signs as the gateway itself, did:web:<home>
	RegistryKey KeyName = "registry" // signs as the AIRC registry
	EndpointKey KeyName = "endpoint" // is the endpoint id of the gateway for freeq servers
)

// KeyNames returns all of them.
func KeyNames() []KeyName { return []KeyName{ServerKey, RegistryKey, EndpointKey} }

// ParseKeyName returns an error for a name of no key.
func ParseKeyName(s string) (KeyName, error) {
	if name := KeyName(s); slices.Contains(KeyNames(), name) {
		return name, nil
	}
	return "", fmt.Errorf("no key %q: want server, registry or endpoint", s)
}

// NamedKey is one of the gateway's own keys as it is listed.
type NamedKey struct {
	Name KeyName
	federation.OwnKey
}

// ErrKeyExists is returned by [CreateKey] where there is a key already.
var ErrKeyExists = errors.New("identity: there is a key already")

// SmallEndpoint is the prefix of an endpoint id that is smaller than nearly all others. Of two servers
// that dial each other at once, the one with the smaller id keeps its link.
const SmallEndpoint = "0000"

// CreateKey makes a key in a folder of keys, and the folder where there is none. For an existing key it
// returns [ErrKeyExists], or with replace puts the new key in its place, without an overlap. It tries
// keys until the [EndpointID] has the prefix, which takes a few seconds for [SmallEndpoint]. A running
// gateway reads the key at its next start, or with [Keyring.Reread].
func CreateKey(dir string, name KeyName, replace bool, prefix string, now time.Time) (NamedKey, error) {
	root, err := openFolder(dir)
	if err != nil {
		return NamedKey{}, fmt.Errorf("create key: %w", err)
	}
	defer root.Close()
	if err := makeKept(root); err != nil {
		return NamedKey{}, fmt.Errorf("create key: %w", err)
	}
	seed := newSeed(prefix)
	if replace {
		err = replaceKey(root, name, seed, now)
	} else {
		err = linkFile(root, string(name), secretText(seed))
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return NamedKey{}, fmt.Errorf("%w: %s", ErrKeyExists, filepath.Join(dir, string(name)))
	case err != nil:
		return NamedKey{}, fmt.Errorf("create key: %w", err)
	}
	return NamedKey{Name: name, OwnKey: federation.OwnKey{Public: signingKey(seed).Public, Since: now}}, nil
}

// replaceKey writes another key without an overlap, and notes the old one where there
// is one that can be read.
func replaceKey(root *os.Root, name KeyName, seed []byte, now time.Time) error {
	unlock, err := lockFolder(root)
	if err != nil {
		return err
	}
	defer unlock()
	retired, err := readRetired(root)
	if err != nil {
		return err
	}
	if old, err := readOwn(root, name, retired); err == nil {
		if err := writeRetired(root, append(retired, retire(name, old, now, now))); err != nil {
			return err
		}
	}
	if err := noteReplaced(root, name, federation.KeyID(signingKey(seed).Public)); err != nil {
		return err
	}
	return replaceFile(root, string(name), secretText(seed))
}

func newSeed(prefix string) []byte {
	for {
		seed := make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(seed) // never fails
		if prefix == "" || strings.HasPrefix(EndpointID(signingKey(seed).Public), prefix) {
			return seed
		}
	}
}

// EndpointID returns the id of an endpoint, as freeq servers write it: the key in
// lower-case hexadecimal.
//
// spec: freeq "Endpoint id and key file"
func EndpointID(key ed25519.PublicKey) string { return fmt.Sprintf("%x", []byte(key)) }

// ListKeys returns the own keys in a folder, and makes none: each key that signs, followed by its
// predecessors, newest first. A missing folder has none.
func ListKeys(dir string) ([]NamedKey, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer root.Close()
	retired, err := readRetired(root)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	var keys []NamedKey
	for _, name := range KeyNames() {
		key, err := readOwn(root, name, retired)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		for _, listed := range listed(name, key, retired) {
			keys = append(keys, NamedKey{Name: name, OwnKey: listed})
		}
	}
	return keys, nil
}

// readOwn reads an own key and the time when it was made: when its predecessor was retired, or when the
// file of the first one was written.
func readOwn(root *os.Root, name KeyName, retired []retiredKey) (ownKey, error) {
	seed, err := readKey(root, string(name))
	if err != nil {
		return ownKey{}, err
	}
	info, err := root.Lstat(string(name))
	if err != nil {
		return ownKey{}, fmt.Errorf("read key %s: %w", filepath.Join(root.Name(), string(name)), err)
	}
	key := ownKey{SigningKey: signingKey(seed), since: info.ModTime()}
	if all := listed(name, key, retired); len(all) > 1 {
		key.since = all[1].Retired
	}
	return key, nil
}

// listed returns a key and its predecessors, newest first.
func listed(name KeyName, key ownKey, retired []retiredKey) []federation.OwnKey {
	keys := []federation.OwnKey{{Public: key.Public, Since: key.since}}
	for _, old := range slices.Backward(retired) {
		if old.Name == name && !key.Public.Equal(ed25519.PublicKey(old.Public)) { // an equal one was not replaced after all
			keys = append(keys, old.own())
		}
	}
	return keys
}
