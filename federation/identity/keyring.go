package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/baton-gateway/baton/federation"
)

// Each file contains 32 bytes in hexadecimal. An own key is in a file of its name.
const (
	keptFile  = "kept" // secret of all kept keys
	tokenFile = "token"

	secretBytes = 32
)

// keptInfo separates kept keys from other keys derived from the same secret.
const keptInfo = "baton kept key v1\x00"

// Keyring contains the private keys of one gateway, from its folder. Its methods may be called
// concurrently.
//
// The keys kept for participants are derived from one secret and a name, and are not stored. A power
// cut therefore cannot separate them from the record, and a backup of a few small files is complete.
//
// The gateway's own keys change only by [Keyring.Rotate]. [Keyring.Reread] reads a rotation by another
// replica with the same folder.
type Keyring struct {
	dir    string
	signer Signer
	kept   []byte
	token  []byte
	// Recent kept keys: each step needs one per party.
	derived *otter.Cache[string, federation.SigningKey]

	files   sync.Mutex // held during reads and writes of own keys
	mu      sync.RWMutex
	own     map[KeyName]ownKey
	retired []retiredKey     // oldest first
	ends    func() time.Time // clock for the end of overlaps, or nil
}

// EndBy sets the clock for the end of overlaps, unless the time of a call is later. Call it before the
// keyring is used.
func (k *Keyring) EndBy(confirmed func() time.Time) { k.ends = confirmed }

type ownKey struct {
	federation.SigningKey
	since time.Time
}

// OpenKeyring reads the keys in a folder. The first call creates the folder and the keys. Only the
// owner may have access; the error names an exposed file.
func OpenKeyring(dir string) (*Keyring, error) { return openFiles(dir, ServerKey, RegistryKey) }

// OpenSignerKeyring is an [OpenKeyring] whose server key and registry key are in a signer command. It
// reads their public parts from the command, for up to [SignerTimeout] each.
func OpenSignerKeyring(ctx context.Context, dir string, signer Signer) (*Keyring, error) {
	k, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	k.signer = signer
	for _, name := range []KeyName{ServerKey, RegistryKey} {
		key, err := signer.key(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("open key %s: %w", name, err)
		}
		k.own[name] = ownKey{SigningKey: key}
	}
	return k, nil
}

func openFiles(dir string, names ...KeyName) (*Keyring, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	defer root.Close()
	if err := makeKeys(root, names); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	k := &Keyring{dir: dir, own: make(map[KeyName]ownKey, len(names)), derived: newCache[string, federation.SigningKey]()}
	if err := k.readFiles(root, names); err != nil {
		return nil, err
	}
	return k, nil
}

func openFolder(dir string) (*os.Root, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if err := checkMode(info); err != nil {
		return nil, fmt.Errorf("%s: %w: chmod 700 it", dir, err)
	}
	return os.OpenRoot(dir)
}

// The name of the folder is synced before any file is written.
func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return syncFolder(parent)
}

func makeKeys(root *os.Root, names []KeyName) error {
	if err := makeKept(root); err != nil {
		return err
	}
	if err := makeKey(root, tokenFile); err != nil {
		return err
	}
	for _, name := range names {
		if err := makeKey(root, string(name)); err != nil {
			return err
		}
	}
	return nil
}

// The kept secret is the first file of a folder. If other files exist, the secret was lost: a new one
// would change the identity of every agent.
func makeKept(root *os.Root) error {
	var others bool // read first, because another gateway may create all files now
	for _, name := range []string{tokenFile, string(RegistryKey), string(ServerKey)} {
		_, err := root.Lstat(name)
		others = others || err == nil
	}
	if _, err := root.Lstat(keptFile); others && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing, and it holds the keys of all agents: restore it from a backup", filepath.Join(root.Name(), keptFile))
	}
	return makeKey(root, keptFile)
}

// A complete file is linked to its name. Unlike a rename, a link never replaces a key created
// concurrently.
func makeKey(root *os.Root, name string) error {
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: the program ends without entropy
	err := linkFile(root, name, secretText(secret))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// The error wraps [fs.ErrExist] for an existing file.
func linkFile(root *os.Root, name string, text []byte) error {
	draft, err := writeDraft(root, name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(root.Name(), name), err)
	}
	defer root.Remove(draft) //nolint:errcheck // a draft that is left is an unused secret
	if err := root.Link(draft, name); err != nil {
		return err
	}
	return syncFolder(root)
}

// After a power cut, the file has the old text or the new one.
func replaceFile(root *os.Root, name string, text []byte) error {
	draft, err := writeDraft(root, name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(root.Name(), name), err)
	}
	if err := root.Rename(draft, name); err != nil {
		return errors.Join(err, root.Remove(draft))
	}
	return syncFolder(root)
}

func secretText(secret []byte) []byte { return []byte(hex.EncodeToString(secret) + "\n") }

func syncFolder(root *os.Root) error {
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func writeDraft(root *os.Root, name string, text []byte) (draft string, err error) {
	draft = "." + name + "-" + rand.Text()
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(text); err != nil {
		return "", err
	}
	return draft, f.Sync()
}

func (k *Keyring) readFiles(root *os.Root, names []KeyName) error {
	var err error
	if k.kept, err = readKey(root, keptFile); err != nil {
		return err
	}
	if k.token, err = readKey(root, tokenFile); err != nil {
		return err
	}
	if k.retired, err = readRetired(root); err != nil {
		return err
	}
	for _, name := range names {
		if k.own[name], err = readOwn(root, name, k.retired); err != nil {
			return err
		}
	}
	return nil
}

func readKey(root *os.Root, name string) ([]byte, error) {
	secret, err := readSecret(root, name)
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", filepath.Join(root.Name(), name), err)
	}
	return secret, nil
}

func readSecret(root *os.Root, name string) ([]byte, error) {
	content, err := readFile(root, name)
	if err != nil {
		return nil, err
	}
	digits := bytes.TrimSuffix(content, []byte("\n"))
	secret := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(secret, digits); err != nil || len(secret) != secretBytes {
		return nil, fmt.Errorf("want %d hexadecimal digits and nothing else", hex.EncodedLen(secretBytes))
	}
	return secret, nil
}

// The file must be regular, and readable only by its owner.
func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if err := checkMode(info); err != nil {
		return nil, fmt.Errorf("%w: chmod 600 it", err)
	}
	return root.ReadFile(name)
}

func checkMode(info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("others have access (mode %04o)", mode)
	}
	return nil
}

// Registry returns the registry's current signing key.
func (k *Keyring) Registry() federation.SigningKey { return k.current(RegistryKey) }

// Server returns the gateway's current signing key, as the DID of its home.
func (k *Keyring) Server(home federation.HomeID) federation.SigningKey {
	key := k.current(ServerKey)
	key.DID = home.DID()
	return key
}

func (k *Keyring) current(name KeyName) federation.SigningKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.own[name].SigningKey
}

// Kept returns the key kept for a name, always the same one.
//
// spec: RFC 5869 §2, with SHA-256, no salt and the name in info
func (k *Keyring) Kept(name string) federation.SigningKey {
	if key, ok := k.derived.GetIfPresent(name); ok {
		return key
	}
	seed, err := hkdf.Key(sha256.New, k.kept, nil, keptInfo+name, ed25519.SeedSize)
	if err != nil {
		panic("identity: derive kept key: " + err.Error()) // only above 8160 bytes
	}
	key := signingKey(seed)
	k.derived.Set(name, key)
	return key
}

// Token returns the 32-byte secret for session tokens.
func (k *Keyring) Token() []byte { return bytes.Clone(k.token) }

func signingKey(seed []byte) federation.SigningKey {
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey) // the only type
	return federation.SigningKey{
		Public: public,
		DID:    KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) {
			return ed25519.Sign(private, message), nil
		},
	}
}

// Secrets of a keyring besides its own keys.
const (
	KeptSecret  KeyName = keptFile  // of all kept keys
	TokenSecret KeyName = tokenFile // of session tokens
)

// markInfo separates the fingerprint of a secret from derived keys.
const markInfo = "baton key mark v1"

func markSecret(secret []byte) string {
	sum := hmac.New(sha256.New, secret)
	_, _ = sum.Write([]byte(markInfo))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Marks returns the marks of the keys, for the record.
func (k *Keyring) Marks(now time.Time) []federation.KeyMark {
	marks := []federation.KeyMark{
		{Name: keptFile, Fingerprint: markSecret(k.kept), Since: now}, {Name: tokenFile, Fingerprint: markSecret(k.token), Since: now},
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, name := range []KeyName{RegistryKey, ServerKey} {
		marks = append(marks, federation.KeyMark{Name: string(name), Fingerprint: federation.KeyID(k.own[name].Public), Since: now})
	}
	return marks
}

// HomeKeys are a home's signing keys in a keyring.
type HomeKeys struct {
	*Keyring

	Home federation.HomeID
}

// Own returns the current key for the home's own steps.
func (k HomeKeys) Own() federation.SigningKey { return k.Server(k.Home) }

// CurrentKeys proves DIDs with the current key source, which a rotation replaces. Its methods may be
// called concurrently.
type CurrentKeys struct {
	Source func() *KeySource
	Logins *Logins
	// Proven is called with each proved DID.
	Proven func(ctx context.Context, did federation.DID)
	// Refused is called with each refused login, unless the DID's last one had the same reason.
	Refused func(ctx context.Context, did federation.DID, why error)
}

// Proved is a [Logins.Proved] with the current key source.
func (c CurrentKeys) Proved(ctx context.Context, did federation.DID, message, signature []byte) (federation.PublicKey, federation.Verdict, error) {
	now := time.Now()
	key, verdict, err := c.Logins.Proved(ctx, c.Source(), did, message, signature, now)
	if verdict == federation.Valid && err == nil {
		c.Logins.refused.Invalidate(did)
		c.Proven(ctx, did)
		return key, verdict, nil
	}
	why := cmp.Or(err, errNotSigned)
	if last, first := c.Logins.refused.Set(did, RefusedLogin{At: now, Why: why}); first || last.Why.Error() != why.Error() {
		c.Refused(ctx, did, why)
	}
	return key, verdict, err
}

var errNotSigned = errors.New("the signature is not by a key in its document")

// Learn is a [KeySource.Learn] with the current key source.
func (c CurrentKeys) Learn(ctx context.Context, report federation.KeyReport) error {
	return c.Source().Learn(ctx, report)
}

// Revoked is a [KeySource.Revoked] with the current key source.
func (c CurrentKeys) Revoked(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error) {
	return c.Source().Revoked(ctx, did, keyID, at)
}
