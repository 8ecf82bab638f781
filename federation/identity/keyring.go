package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"baton/federation"
)

// The files of a keyring, each with 32 bytes in hexadecimal.
const (
	registryFile = "registry" // seed of the key that signs as the registry
	serverFile   = "server"   // seed of the key that signs as the gateway itself
	keptFile     = "kept"     // secret from which all kept keys are derived
	tokenFile    = "token"    // secret that session tokens are made with

	secretBytes = 32
)

// keptInfo separates kept keys from whatever else may be derived one day.
const keptInfo = "baton kept key v1\x00"

// Keyring is the private keys of one gateway, read from a folder of its own.
//
// The keys that the gateway keeps for others, one a name, are derived from one
// secret and not stored. A stored key would have to reach the disk before the
// record speaks of it and never without it; a derived one cannot be lost between
// the two, whenever the power fails, and a backup of four small files that never
// change is complete.
type Keyring struct {
	registry federation.SigningKey
	server   federation.SigningKey
	kept     []byte
	token    []byte
}

// OpenKeyring reads the keys in a folder. The first call makes folder and keys;
// what is there is never written again. The folder must be its owner's alone, and
// so must each file; the error is one line that names what is not.
func OpenKeyring(dir string) (*Keyring, error) {
	if err := makeFolder(dir); err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	if err := checkMode(info); err != nil {
		return nil, fmt.Errorf("open keys: %s: %w: chmod 700 it", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	defer root.Close()
	if err := makeKeys(root); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	return readKeys(root)
}

// makeFolder makes a folder, and its name durable before anything is kept in it.
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

// makeKeys makes what is missing, such as the key of the gateway itself in a folder
// from before there was one. The kept secret is made first and the registry's key
// last, so a kept secret that is missing beside a registry key was lost: a new one
// would give every agent a new identity in silence.
func makeKeys(root *os.Root) error {
	_, registry := root.Lstat(registryFile) // before the other: a first start beside this one may make both
	_, kept := root.Lstat(keptFile)
	if registry == nil && errors.Is(kept, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing and with it the identity of every agent: restore it", filepath.Join(root.Name(), keptFile))
	}
	for _, name := range []string{keptFile, tokenFile, serverFile, registryFile} {
		if err := makeKey(root, name); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(root.Name(), name), err)
		}
	}
	return nil
}

// makeKey writes a new secret where there is none. The file gets its name by a link
// when its content is on disk: a link, unlike a rename, never replaces a key that
// another process made meanwhile.
func makeKey(root *os.Root, name string) error {
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft := "." + name + "-" + rand.Text()
	if err := writeDraft(root, draft); err != nil {
		return err
	}
	defer root.Remove(draft) //nolint:errcheck // a draft that stays is a secret that nobody uses
	if err := root.Link(draft, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(root)
}

// syncFolder puts the names in a folder on disk.
func syncFolder(root *os.Root) error {
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func writeDraft(root *os.Root, draft string) (err error) {
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	secret := make([]byte, secretBytes)
	rand.Read(secret) // never fails: without entropy the program ends
	if _, err := f.WriteString(hex.EncodeToString(secret) + "\n"); err != nil {
		return err
	}
	return f.Sync()
}

func readKeys(root *os.Root) (*Keyring, error) {
	secrets := map[string][]byte{}
	for _, name := range []string{keptFile, tokenFile, serverFile, registryFile} {
		secret, err := readKey(root, name)
		if err != nil {
			return nil, fmt.Errorf("read key %s: %w", filepath.Join(root.Name(), name), err)
		}
		secrets[name] = secret
	}
	return &Keyring{
		registry: signingKey(secrets[registryFile]),
		server:   signingKey(secrets[serverFile]),
		kept:     secrets[keptFile],
		token:    secrets[tokenFile],
	}, nil
}

// readKey returns the 32 bytes of a file, which holds nothing else.
func readKey(root *os.Root, name string) ([]byte, error) {
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
	content, err := root.ReadFile(name)
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

// checkMode refuses what others than the owner may read or write.
func checkMode(info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("others have access (mode %04o)", mode)
	}
	return nil
}

// Registry returns the key that signs what the registry says.
func (k *Keyring) Registry() federation.SigningKey { return k.registry }

// Server returns the key that signs what the gateway itself says, as the DID of its
// home. [DIDDocument] is where others find it.
func (k *Keyring) Server(home federation.HomeID) federation.SigningKey {
	key := k.server
	key.DID = home.DID()
	return key
}

// Kept returns the key that this gateway keeps for a name: the same one for the
// same name, for ever.
//
// spec: RFC 5869 §2, with SHA-256, no salt and the name in info
func (k *Keyring) Kept(name string) federation.SigningKey {
	seed, err := hkdf.Key(sha256.New, k.kept, nil, keptInfo+name, ed25519.SeedSize)
	if err != nil {
		panic("identity: derive kept key: " + err.Error()) // only for more than 8160 bytes
	}
	return signingKey(seed)
}

// Token returns the 32 bytes that session tokens are made with.
func (k *Keyring) Token() []byte { return bytes.Clone(k.token) }

func signingKey(seed []byte) federation.SigningKey {
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey) // always is one
	return federation.SigningKey{
		Public: public,
		DID:    KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) {
			return ed25519.Sign(private, message), nil
		},
	}
}
