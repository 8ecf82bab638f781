package identity

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/federation"
)

// A JSON file of public parts.
const retiredFile = "retired"

// Like the name of a draft, so that it is not read as a key.
const lockFile = ".lock"

// Far more than the rotations in one overlap. Older keys are dropped.
const maxRetired = 100

// ErrNotRotated is returned by [Keyring.Rotate] for a key that cannot be rotated here.
var ErrNotRotated = errors.New("identity: this key cannot be rotated here")

type retiredKey struct {
	Name    KeyName   `json:"name"`
	Public  []byte    `json:"public_key"`
	Since   time.Time `json:"since"`
	Retired time.Time `json:"retired"`
	Until   time.Time `json:"until"`
}

func (r retiredKey) equal(other retiredKey) bool {
	return r.Name == other.Name && bytes.Equal(r.Public, other.Public) && r.Until.Equal(other.Until)
}

func retire(name KeyName, key ownKey, now, until time.Time) retiredKey {
	return retiredKey{Name: name, Public: key.Public, Since: key.since.UTC(), Retired: now.UTC(), Until: until.UTC()}
}

// Rotate creates a new signing key. The old key stays listed during the overlap, so that its signatures
// stay valid; its private part is deleted. Both changes are durable before Rotate returns; after an
// earlier power cut, the old key still signs. Rotate blocks during a rotation by another replica. It
// returns [ErrNotRotated] for a key of a [Signer], and for the endpoint key, which is configured at
// other servers.
func (k *Keyring) Rotate(name KeyName, overlap time.Duration, now time.Time) (NamedKey, error) {
	switch {
	case name == EndpointKey:
		return NamedKey{}, fmt.Errorf("%w: each peer has the id of the endpoint in its configuration; create another one", ErrNotRotated)
	case k.signer != nil:
		return NamedKey{}, fmt.Errorf("%w: the signer keeps it", ErrNotRotated)
	case overlap <= 0:
		return NamedKey{}, fmt.Errorf("%w: the overlap must be more than 0s", ErrNotRotated)
	}
	made, err := k.rotate(name, overlap, now)
	if err != nil {
		return NamedKey{}, fmt.Errorf("rotate key: %w", err)
	}
	return NamedKey{Name: name, OwnKey: federation.OwnKey{Public: made.Public, Since: now}}, nil
}

func (k *Keyring) rotate(name KeyName, overlap time.Duration, now time.Time) (ownKey, error) {
	k.files.Lock()
	defer k.files.Unlock()
	root, err := os.OpenRoot(k.dir)
	if err != nil {
		return ownKey{}, err
	}
	defer root.Close()
	unlock, err := lockFolder(root)
	if err != nil {
		return ownKey{}, err
	}
	defer unlock()
	if _, err := k.reread(root); err != nil { // another replica may have rotated
		return ownKey{}, err
	}
	retired := append(slices.Clone(k.retired), retire(name, k.own[name], now, now.Add(overlap)))
	if err := writeRetired(root, retired); err != nil {
		return ownKey{}, err
	}
	seed := newSeed("")
	if err := replaceFile(root, string(name), secretText(seed)); err != nil {
		return ownKey{}, err
	}
	made := ownKey{SigningKey: signingKey(seed), since: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.own[name], k.retired = made, retired
	return made, nil
}

// Reread reads the gateway's own keys again, and reports whether another replica rotated one. After an
// error, the earlier keys stay in use. It does not query a signer.
func (k *Keyring) Reread() (changed bool, err error) {
	if k.signer != nil {
		return false, nil
	}
	k.files.Lock()
	defer k.files.Unlock()
	root, err := os.OpenRoot(k.dir)
	if err == nil {
		defer root.Close()
		changed, err = k.reread(root)
	}
	if err != nil {
		return false, fmt.Errorf("read own keys again: %w", err)
	}
	return changed, nil
}

// The caller opened the folder.
func (k *Keyring) reread(root *os.Root) (changed bool, err error) {
	retired, err := readRetired(root)
	if err != nil {
		return false, err
	}
	own := make(map[KeyName]ownKey, len(k.own))
	for name, before := range k.own {
		if own[name], err = readOwn(root, name, retired); err != nil {
			return false, err
		}
		changed = changed || !own[name].Public.Equal(before.Public)
	}
	changed = changed || !slices.EqualFunc(retired, k.retired, retiredKey.equal)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.own, k.retired = own, retired
	return changed, nil
}

// Other replicas cannot rotate keys until unlock, or the end of this process. The file must stay:
// otherwise, two replicas could lock different files of the same name.
func lockFolder(root *os.Root) (unlock func(), err error) {
	f, err := root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil // this unlocks it
}

// Good returns the keys with valid signatures: the signing key, then keys in their overlap, newest
// first.
func (k *Keyring) Good(name KeyName, now time.Time) []federation.OwnKey {
	if k.ends != nil {
		if confirmed := k.ends(); confirmed.Before(now) {
			now = confirmed
		}
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.DeleteFunc(listed(name, k.own[name], k.retired), func(key federation.OwnKey) bool { return key.State(now) == "retired" })
}

// The oldest key is first. The file may be missing.
func readRetired(root *os.Root) ([]retiredKey, error) {
	text, err := readFile(root, retiredFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var retired []retiredKey
	if err == nil {
		err = federation.DecodeJSON(text, &retired)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(root.Name(), retiredFile), err)
	}
	return retired, nil
}

func writeRetired(root *os.Root, retired []retiredKey) error {
	if over := len(retired) - maxRetired; over > 0 {
		retired = retired[over:]
	}
	text, err := json.MarshalIndent(retired, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(root, retiredFile, append(text, '\n'))
}

// A JSON file with the fingerprint of each deliberate replacement, by the name of the key.
const replacedFile = "replaced"

// ParseSecretName returns an error for an unknown name.
func ParseSecretName(s string) (KeyName, error) {
	if name := KeyName(s); name == KeptSecret || name == TokenSecret {
		return name, nil
	}
	return "", fmt.Errorf("no secret %q: want kept or token", s)
}

// ReplaceSecret creates or replaces a secret in a folder of keys, and returns its mark. A new token
// secret ends all sessions; a new kept secret gives every agent another DID.
func ReplaceSecret(dir string, name KeyName, now time.Time) (federation.KeyMark, error) {
	root, err := openFolder(dir)
	if err != nil {
		return federation.KeyMark{}, fmt.Errorf("replace secret: %w", err)
	}
	defer root.Close()
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret)
	mark := federation.KeyMark{Name: string(name), Fingerprint: markSecret(secret), Since: now}
	if err := replaceOnPurpose(root, name, mark.Fingerprint, secret); err != nil {
		return federation.KeyMark{}, fmt.Errorf("replace secret: %w", err)
	}
	return mark, nil
}

// AcceptKey records that a signer's current key deliberately replaced another key.
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

// The note is written first: after a power cut between the two writes, the old secret is still valid.
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

func readReplaced(root *os.Root) (map[KeyName]string, error) {
	text, err := readFile(root, replacedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no key was rotated
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
