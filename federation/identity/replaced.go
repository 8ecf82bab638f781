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

// replacedFile holds, as JSON, the fingerprint of each key that was made in the place of
// another on purpose, by the name of the key.
const replacedFile = "replaced"

// ParseSecretName returns an error for what names no secret of a keyring.
func ParseSecretName(s string) (KeyName, error) {
	if name := KeyName(s); name == KeptSecret || name == TokenSecret {
		return name, nil
	}
	return "", fmt.Errorf("no secret %q: want kept or token", s)
}

// ReplaceSecret makes a secret in a folder of keys, over whatever is there, and returns its
// mark. With another token secret all sessions end; with another kept secret every agent is
// another DID.
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

// AcceptKey notes that the key which a signer has now took the place of another on purpose.
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

// replaceOnPurpose writes a secret over whatever is there. The note comes first: after a
// power cut in between, the old secret is good all the same.
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
		err = json.Unmarshal(text, &replaced)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(root.Name(), replacedFile), err)
	}
	return replaced, nil
}

// noteReplaced notes that the key with a fingerprint took the place of another on purpose.
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
