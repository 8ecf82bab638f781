package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"baton/federation"
)

// LostKey is a key that a record was written with and a folder of keys lacks.
type LostKey struct {
	Name  KeyName
	Path  string // of its file; or the program of a signer
	Known string // its fingerprint on record; "" for none
	There string // the fingerprint of the key in its place; "" for none
}

// String says what is wrong and what to do, in one line.
func (l LostKey) String() string {
	what := l.Path + " is missing, and the record was written with that key"
	if l.There != "" {
		what = fmt.Sprintf("%s has key %s, and the record was written with another one", l.Path, l.There)
	}
	if l.Known != "" {
		what += ", " + l.Known
	}
	return fmt.Sprintf("key %s: %s: restore it from a backup, or replace it with baton keys create %s --force", l.Name, what, l.Name)
}

// LostKeysError is returned where keys that a record was written with are missing.
type LostKeysError struct {
	Lost []LostKey // one at least
}

// Error names the first key, and the others by name.
func (e *LostKeysError) Error() string {
	text := e.Lost[0].String()
	var others []string
	for _, lost := range e.Lost[1:] {
		others = append(others, string(lost.Name))
	}
	if len(others) > 0 {
		text += "; so with " + strings.Join(others, ", ")
	}
	return text
}

// AssumedMarks are the marks of a record that has none: each key has to exist, and may have any value.
func AssumedMarks() []federation.KeyMark {
	var marks []federation.KeyMark
	for _, name := range []KeyName{KeptSecret, RegistryKey, ServerKey, TokenSecret} {
		marks = append(marks, federation.KeyMark{Name: string(name)})
	}
	return marks
}

// CheckKeys compares the keys in a folder, or of a signer, with the keys that a record was written with.
// It makes no key. Keys that were rotated, or that [CreateKey] replaced, are not lost. It returns a
// [*LostKeysError] for missing keys, and a [*federation.UnavailableError] where the signer does not
// answer.
func CheckKeys(ctx context.Context, dir string, signer Signer, known []federation.KeyMark) error {
	if len(known) == 0 {
		return nil
	}
	f := keyFiles{dir: dir, signer: signer}
	root, err := os.OpenRoot(dir)
	if err == nil {
		defer root.Close()
		err = f.read(root)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("check keys: %w", err)
	}
	var lost []LostKey
	for _, mark := range known {
		one, err := f.lookFor(ctx, root, mark)
		if err != nil {
			return fmt.Errorf("check key %s: %w", mark.Name, err)
		}
		if one != nil {
			lost = append(lost, *one)
		}
	}
	if len(lost) > 0 {
		return &LostKeysError{Lost: lost}
	}
	return nil
}

// keyFiles is the notes in a folder of keys.
type keyFiles struct {
	dir      string
	signer   Signer
	retired  []retiredKey
	replaced map[KeyName]string
}

func (f *keyFiles) read(root *os.Root) (err error) {
	if f.retired, err = readRetired(root); err != nil {
		return err
	}
	f.replaced, err = readReplaced(root)
	return err
}

// lookFor returns the lost key of a mark, nil for a key that exists. The folder may be nil.
func (f *keyFiles) lookFor(ctx context.Context, root *os.Root, mark federation.KeyMark) (*LostKey, error) {
	name := KeyName(mark.Name)
	lost := &LostKey{Name: name, Path: filepath.Join(f.dir, mark.Name), Known: mark.Fingerprint}
	there, err := f.fingerprint(ctx, root, name, lost)
	if errors.Is(err, fs.ErrNotExist) {
		return lost, nil
	}
	if err != nil {
		return nil, err
	}
	wasRetired := slices.ContainsFunc(f.retired, func(old retiredKey) bool {
		return old.Name == name && federation.KeyID(old.Public) == mark.Fingerprint
	})
	if mark.Fingerprint == "" || there == mark.Fingerprint || wasRetired || f.replaced[name] == there {
		return nil, nil //nolint:nilnil // no key is lost
	}
	lost.There = there
	return lost, nil
}

// fingerprint returns the fingerprint of the key that has a name now, and notes in lost which signer has
// it. The error wraps [fs.ErrNotExist] where there is none.
func (f *keyFiles) fingerprint(ctx context.Context, root *os.Root, name KeyName, lost *LostKey) (string, error) {
	own := name == ServerKey || name == RegistryKey
	if own && len(f.signer) > 0 {
		lost.Path = "signer " + f.signer[0]
		public, err := f.signer.Public(ctx, name)
		if err != nil {
			return "", &federation.UnavailableError{What: "signer of key " + string(name), Err: err}
		}
		return federation.KeyID(public), nil
	}
	if root == nil {
		return "", fs.ErrNotExist
	}
	secret, err := readSecret(root, string(name))
	switch {
	case err != nil:
		return "", err
	case own:
		return federation.KeyID(signingKey(secret).Public), nil
	}
	return markSecret(secret), nil
}
