package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"baton/federation"
)

// retiredFile holds the public parts of keys that were rotated away, as JSON.
const retiredFile = "retired"

// maxRetired bounds what is kept of one key: far more than anybody rotates in
// overlaps that others still care for. Older ones are forgotten.
const maxRetired = 100

// ErrNotRotated is returned by [Keyring.Rotate] for a key that cannot be rotated
// here, with why.
var ErrNotRotated = errors.New("identity: this key cannot be rotated here")

// retiredKey is one entry of [retiredFile].
type retiredKey struct {
	Name    KeyName   `json:"name"`
	Public  []byte    `json:"public_key"`
	Since   time.Time `json:"since"`
	Retired time.Time `json:"retired"`
	Until   time.Time `json:"until"`
}

func (r retiredKey) own() federation.OwnKey {
	return federation.OwnKey{Public: r.Public, Since: r.Since, Retired: r.Retired, Until: r.Until}
}

func retire(name KeyName, key ownKey, now, until time.Time) retiredKey {
	return retiredKey{Name: name, Public: key.Public, Since: key.since.UTC(), Retired: now.UTC(), Until: until.UTC()}
}

// Rotate makes a new key, which signs from now on. What the old one signed is good for
// the overlap: it stays listed, and its private part is gone. Both is durable before
// Rotate returns; after a power cut in between the old key signs on. It returns
// [ErrNotRotated] for the key of a [Signer], which rotates its own, and for that of
// the endpoint, which others know by its value alone.
func (k *Keyring) Rotate(name KeyName, overlap time.Duration, now time.Time) (NamedKey, error) {
	switch {
	case name == EndpointKey:
		return NamedKey{}, fmt.Errorf("%w: each peer has the id of the endpoint in its configuration; create another one", ErrNotRotated)
	case k.signer != nil:
		return NamedKey{}, fmt.Errorf("%w: the signer keeps it", ErrNotRotated)
	case overlap <= 0:
		return NamedKey{}, fmt.Errorf("%w: the overlap must be more than 0s", ErrNotRotated)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	root, err := os.OpenRoot(k.dir)
	if err != nil {
		return NamedKey{}, fmt.Errorf("rotate key: %w", err)
	}
	defer root.Close()
	old := k.own[name]
	retired := append(slices.Clone(k.retired), retire(name, old, now, now.Add(overlap)))
	if err := writeRetired(root, retired); err != nil {
		return NamedKey{}, fmt.Errorf("rotate key: %w", err)
	}
	seed := newSeed("")
	if err := replaceFile(root, string(name), secretText(seed)); err != nil {
		return NamedKey{}, fmt.Errorf("rotate key: %w", err)
	}
	k.own[name], k.retired = ownKey{SigningKey: signingKey(seed), since: now}, retired
	return NamedKey{Name: name, OwnKey: federation.OwnKey{Public: k.own[name].Public, Since: now}}, nil
}

// Good returns the keys under which what the gateway says is good now: the one that
// signs, and those whose overlap has not ended, newest first.
func (k *Keyring) Good(name KeyName, now time.Time) []federation.OwnKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.DeleteFunc(listed(name, k.own[name], k.retired), func(key federation.OwnKey) bool { return key.State(now) == "retired" })
}

// readRetired returns what was rotated away, oldest first. No file is nothing.
func readRetired(root *os.Root) ([]retiredKey, error) {
	text, err := readFile(root, retiredFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var retired []retiredKey
	if err == nil {
		err = json.Unmarshal(text, &retired)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(root.Name(), retiredFile), err)
	}
	return retired, nil
}

// writeRetired writes the list, without the oldest of what is too much.
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
