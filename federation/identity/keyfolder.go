package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// KeyFolder contains the gateway's own keys, for commands: a folder of files, and optionally a signer.
type KeyFolder struct {
	Dir    string
	Signer Signer // may be empty
}

// Open returns the keyring of a gateway, and creates missing keys.
func (f KeyFolder) Open(ctx context.Context) (*Keyring, error) {
	if len(f.Signer) > 0 {
		return OpenSignerKeyring(ctx, f.Dir, f.Signer)
	}
	return OpenKeyring(f.Dir)
}

// MarkRecord stores the marks of the keys that were used to write a record. Its methods block on the
// record and return its errors.
type MarkRecord interface {
	// OwnKeys returns the newest mark of each name.
	OwnKeys(ctx context.Context) ([]federation.KeyMark, error)
	// Used reports whether the record contains a handoff or an agent.
	Used(ctx context.Context) (bool, error)
	// MarkOwnKeys records the keys used from now on.
	MarkOwnKeys(ctx context.Context, marks []federation.KeyMark) error
}

// OpenFor is a [KeyFolder.Open] for the gateway of a record, and marks the keys there. It never
// replaces a key used to write the record, see [KeyFolder.Check]. Adopted is true if the record was in
// use without marks. The record is read first, because a rotation by another replica writes the key
// before the record.
func (f KeyFolder) OpenFor(ctx context.Context, record MarkRecord, now time.Time) (ring *Keyring, adopted bool, err error) {
	known, err := record.OwnKeys(ctx)
	if err != nil {
		return nil, false, err
	}
	used, err := record.Used(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := f.Check(ctx, known, used); err != nil {
		return nil, false, err
	}
	if ring, err = f.Open(ctx); err != nil {
		return nil, false, err
	}
	return ring, used && len(known) == 0, record.MarkOwnKeys(ctx, ring.Marks(now))
}

// Check returns the error of [CheckKeys]. A used record without marks predates marks, so each key must
// exist.
func (f KeyFolder) Check(ctx context.Context, known []federation.KeyMark, used bool) error {
	if len(known) == 0 && used {
		known = AssumedMarks()
	}
	return CheckKeys(ctx, f.Dir, f.Signer, known)
}

// List returns the current and retired keys. The error is a [*federation.UnavailableError] if the
// signer does not answer.
func (f KeyFolder) List(ctx context.Context) ([]NamedKey, error) {
	keys, err := ListKeys(f.Dir)
	if err != nil || len(f.Signer) == 0 {
		return keys, err
	}
	keys = slices.DeleteFunc(keys, func(key NamedKey) bool { return f.signs(key.Name) })
	for _, name := range []KeyName{RegistryKey, ServerKey} {
		public, err := f.Signer.Public(ctx, name)
		if err != nil {
			return nil, &federation.UnavailableError{What: "key " + string(name), Err: err}
		}
		keys = slices.Insert(keys, 0, NamedKey{Name: name, OwnKey: federation.OwnKey{Public: public}})
	}
	return keys, nil
}

// Key returns a current signing key, or an error wrapping [federation.ErrNotFound].
func (f KeyFolder) Key(ctx context.Context, name KeyName) (NamedKey, error) {
	keys, err := f.List(ctx)
	if err != nil {
		return NamedKey{}, err
	}
	at := slices.IndexFunc(keys, func(key NamedKey) bool { return key.Name == name })
	if at < 0 {
		return NamedKey{}, fmt.Errorf("%w: no key %s in %s; baton keys create %s makes one", federation.ErrNotFound, name, f.Dir, name)
	}
	return keys[at], nil
}

// Create creates a key like [CreateKey]. For a key of a signer, it accepts the signer's current key as
// a replacement if replace is set; otherwise the error wraps [ErrKeyExists].
func (f KeyFolder) Create(ctx context.Context, name KeyName, replace bool, prefix string, now time.Time) (NamedKey, error) {
	switch {
	case !f.signs(name):
		return CreateKey(f.Dir, name, replace, prefix, now)
	case replace:
		return AcceptKey(ctx, f.Dir, f.Signer, name)
	}
	return NamedKey{}, fmt.Errorf("%w: %s keeps it", ErrKeyExists, f.Signer[0])
}

func (f KeyFolder) signs(name KeyName) bool { return len(f.Signer) > 0 && name != EndpointKey }

// KeyName names one of the gateway's own keys and its file.
type KeyName string

// The gateway's own keys.
const (
	ServerKey   KeyName = "server"   // signs as did:web:<home>
	RegistryKey KeyName = "registry" // signs as the AIRC registry
	EndpointKey KeyName = "endpoint" // endpoint ID for freeq servers
)

// KeyNames returns all names.
func KeyNames() []KeyName { return []KeyName{ServerKey, RegistryKey, EndpointKey} }

// ParseKeyName returns an error for an unknown name.
func ParseKeyName(s string) (KeyName, error) {
	if name := KeyName(s); slices.Contains(KeyNames(), name) {
		return name, nil
	}
	return "", fmt.Errorf("no key %q: want server, registry or endpoint", s)
}

// NamedKey is one of the gateway's own keys.
type NamedKey struct {
	Name KeyName
	federation.OwnKey
}

// ErrKeyExists is returned by [CreateKey] for an existing key.
var ErrKeyExists = errors.New("identity: the key already exists")

// SmallEndpoint is the prefix of an endpoint ID that is smaller than nearly all others. If two servers
// dial each other at once, the smaller ID keeps its link.
const SmallEndpoint = "0000"

// CreateKey creates a key, and its folder if needed. If replace is set, it replaces an existing key
// without an overlap; otherwise it returns [ErrKeyExists]. It tries keys until the [EndpointID] has the
// prefix, which takes a few seconds for [SmallEndpoint]. A running gateway reads the key at its next
// start, or with [Keyring.Reread].
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

// The key has no overlap. The old key is recorded if it can be read.
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
		_, _ = rand.Read(seed)
		if prefix == "" || strings.HasPrefix(EndpointID(signingKey(seed).Public), prefix) {
			return seed
		}
	}
}

// EndpointID returns an endpoint ID as freeq servers write it: the key in lower-case hexadecimal.
//
// spec: freeq-s2s "Endpoint id and key file"
func EndpointID(key ed25519.PublicKey) string { return fmt.Sprintf("%x", []byte(key)) }

// ListKeys returns the keys in a folder, each signing key followed by its predecessors, newest first. A
// missing folder has no keys.
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

// A key was created when its predecessor was retired, or when the first file was written.
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

func listed(name KeyName, key ownKey, retired []retiredKey) []federation.OwnKey {
	keys := []federation.OwnKey{{Public: key.Public, Since: key.since}}
	for _, old := range slices.Backward(retired) {
		if old.Name == name && !key.Public.Equal(ed25519.PublicKey(old.Public)) { // an equal key was not replaced
			keys = append(keys, federation.OwnKey{Public: old.Public, Since: old.Since, Retired: old.Retired, Until: old.Until})
		}
	}
	return keys
}

// OpenEndpoint returns the endpoint key in an existing folder, with its seed in hexadecimal for the
// transport program. The first call creates the key. Its ID starts with 00, which is quick to find and
// smaller than most IDs.
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

// LostKey is a missing key, formerly used to write a record.
type LostKey struct {
	Name  KeyName
	Path  string // file, or program of a signer
	Known string // recorded one, or ""
	There string // of the key in its place, or ""
}

// String describes the problem and the remedy in one line.
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

// LostKeysError is returned for missing keys that were used to write a record.
type LostKeysError struct {
	Lost []LostKey // at least one
}

// Error describes the first key and names the others.
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

// AssumedMarks returns marks for a record without marks: each key must exist, with any value.
func AssumedMarks() []federation.KeyMark {
	var marks []federation.KeyMark
	for _, name := range []KeyName{KeptSecret, RegistryKey, ServerKey, TokenSecret} {
		marks = append(marks, federation.KeyMark{Name: string(name)})
	}
	return marks
}

// CheckKeys compares existing keys with those used to write a record. It creates no key. Rotated keys,
// and keys replaced by [CreateKey], are not lost. It returns a [*LostKeysError], or a
// [*federation.UnavailableError] if the signer does not answer.
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

// The result is nil if the key exists. The folder may be nil.
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

// The signer of the key is recorded in lost. The error wraps [fs.ErrNotExist] if the key is missing.
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
