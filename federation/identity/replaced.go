package identity

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"baton/federation"
)

// replacedFile has, as JSON, the fingerprint of each key that replaced another one on purpose, by the
// name of the key.
const replacedFile = "replaced"

// ParseSecretName returns an error for a name of no secret of a keyring.
func ParseSecretName(s string) (KeyName, error) {
	if name := KeyName(s); name == KeptSecret || name == TokenSecret {
		return name, nil
	}
	return "", fmt.Errorf("no secret %q: want kept or token", s)
}

// ReplaceSecret makes a new secret in a folder of keys, in place of any earlier one, and returns its mark.
// A new token secret ends all sessions; a new kept secret gives every agent another DID.
func ReplaceSecret(dir string, name KeyName, now time.Time) (federation.KeyMark, error) {
	root, err := openFolder(dir)
	if err != nil {
		return federation.KeyMark{}, fmt.Errorf("replace secret: %w", err)
	}
	defer root.Close()
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	mark := federation.KeyMark{Name: string(name), Fingerprint: markSecret(secret), Since: now}
	if err := replaceOnPurpose(root, name, mark.Fingerprint, secret); err != nil {
		return federation.KeyMark{}, fmt.Errorf("replace secret: %w", err)
	}
	return mark, nil
}

// AcceptKey notes that the current key of a signer replaced another one on purpose.
func AcceptKey(ctx context.Context, dir string, signer Signer, name KeyName) (NamedKey, error) {
	public, err := signer.Public(ctx, name)
	if err != nil {
		return NamedKey{}, &federation.UnavailableError{What: "signer of key " + string(name), Err: err}
	}
	root, err := openFolder(dir)
	if err != nil {
		return NamedKey{}, fmt.Errorf("accept key: %w", err)
	}
	defer root.Close()
	unlock, err := lockFolder(root)
	if err != nil {
		return NamedKey{}, fmt.Errorf("accept key: %w", err)
	}
	defer unlock()
	if err := noteReplaced(root, name, federation.KeyID(public)); err != nil {
		return NamedKey{}, fmt.Errorf("accept key: %w", err)
	}
	return NamedKey{Name: name, OwnKey: federation.OwnKey{Public: public}}, nil
}

// replaceOnPurpose writes a secret in place of any earlier one. It writes the note first: after a power
// cut in between, the old secret is still valid.
func replaceOnPurpose(root *os.Root, name KeyName, fingerprint string, secret []byte) error {
	unlock, err := lockFolder(root)
	if err != nil {
		return err
	}
	defer unlock()
	if err := noteReplaced(root, name, fingerprint); err != nil {
		return err
	}
	return replaceFile(root, string(name), secretText(secret))
}

// readReplaced returns the fingerprints of the keys that were replaced on purpose.
func readReplaced(root *os.Root) (map[KeyName]string, error) {
	text, err := readFile(root, replacedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none was
	}
	var replaced map[KeyName]string
	if err == nil {
		err = federation.DecodeJSON(text, &replaced)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(root.Name(), replacedFile), err)
	}
	return replaced, nil
}

// noteReplaced notes that the key with a fingerprint replaced another one on purpose.
func noteReplaced(root *os.Root, name KeyName, fingerprint string) error {
	before, err := readReplaced(root)
	if err != nil {
		return err
	}
	replaced := make(map[KeyName]string, len(before)+1)
	maps.Copy(replaced, before)
	replaced[name] = fingerprint
	text, err := json.MarshalIndent(replaced, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(root, replacedFile, append(text, '\n'))
}
