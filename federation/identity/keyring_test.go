package identity_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type snapshot struct {
	Registry, Kept, Other federation.DID
	Server                string // its id
	Token                 string
}

func snap(k *identity.Keyring) snapshot {
	return snapshot{
		Registry: k.Registry().DID, Kept: k.Kept("scout").DID, Other: k.Kept("eliza").DID,
		Server: federation.KeyID(k.Server("gw.example").Public), Token: hex.EncodeToString(k.Token()),
	}
}

func openKeys(t *testing.T, dir string) snapshot {
	t.Helper()
	keys, err := identity.OpenKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	return snap(keys)
}

func TestKeyringKeepsItsKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "keys")
	first := openKeys(t, dir)
	if diff := cmp.Diff(first, openKeys(t, dir)); diff != "" {
		t.Errorf("another start, other keys: %s", diff)
	}
	if another := openKeys(t, filepath.Join(t.TempDir(), "keys")); another.Registry == first.Registry ||
		another.Server == first.Server || another.Kept == first.Kept || another.Token == first.Token {
		t.Errorf("two gateways share a key: %+v", another)
	}
	if first.Kept == first.Other {
		t.Error("two names share a kept key")
	}
	modes := map[string]os.FileMode{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		modes[entry.Name()] = info.Mode()
	}
	if diff := cmp.Diff(map[string]os.FileMode{"kept": 0o600, "registry": 0o600, "server": 0o600, "token": 0o600}, modes); diff != "" {
		t.Errorf("files: %s", diff)
	}
}

func TestKeyringAgreesAmongFirstStarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	var opened [8]snapshot
	var starts sync.WaitGroup
	for i := range opened {
		starts.Go(func() {
			keys, err := identity.OpenKeyring(dir)
			if err != nil {
				t.Error(err)
				return
			}
			opened[i] = snap(keys)
		})
	}
	starts.Wait()
	for _, other := range opened[1:] {
		if diff := cmp.Diff(opened[0], other); diff != "" {
			t.Error(diff)
		}
	}
}

// The secrets of these tests, and the keys that must always follow from them.
const (
	keptSecret   = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	tokenSecret  = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
	registrySeed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60" // RFC 8032 §7.1, test 1
	serverSeed   = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb" // the same, test 2
)

func writeKeys(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"kept": keptSecret, "token": tokenSecret, "server": serverSeed, "registry": registrySeed} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestKeyringDerivesStableKeys(t *testing.T) {
	want := snapshot{
		Registry: "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw",
		Kept:     "did:key:z6MkjGVnaMAkR3578nsqFU9yuGKuzFnoVRALfN7Z6kQsz1ik",
		Other:    "did:key:z6MknsAC8tz6SMJmLvjah8C1Yt6BHb82YK2Qh6hkzK5pegK6",
		Server:   "OfcT0KZEJT8EUpQhufUbmw",
		Token:    tokenSecret,
	}
	if diff := cmp.Diff(want, openKeys(t, writeKeys(t))); diff != "" {
		t.Error(diff)
	}
}

func TestKeyringSignsForItsDID(t *testing.T) {
	keys, err := identity.OpenKeyring(writeKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	server := keys.Server("gw.example")
	directory := newDirectory(&web{down: true}, server)
	for name, test := range map[string]struct {
		key  federation.SigningKey
		want federation.DID
	}{
		"registry": {keys.Registry(), identity.KeyDID(keys.Registry().Public)},
		"kept":     {keys.Kept("scout"), identity.KeyDID(keys.Kept("scout").Public)},
		"server":   {server, "did:web:gw.example"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.key.DID != test.want {
				t.Errorf("its DID is %s, want %s", test.key.DID, test.want)
			}
			signature, err := test.key.Sign(t.Context(), []byte("a step"))
			if err != nil {
				t.Fatal(err)
			}
			document, err := directory.Resolve(t.Context(), test.key.DID, noon())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]ed25519.PublicKey{test.key.Public}, document.Keys); diff != "" {
				t.Error(diff)
			}
			if !ed25519.Verify(test.key.Public, []byte("a step"), signature) {
				t.Errorf("%s does not verify what its key signed", test.key.DID)
			}
		})
	}
}

func TestKeyringRefusesUnusableKeys(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"a folder that others may read": {
			func(dir string) error { return os.Chmod(dir, 0o750) }, "chmod 700",
		},
		"a key that others may read": {
			func(dir string) error { return os.Chmod(filepath.Join(dir, "registry"), 0o604) }, "registry: others have access (mode 0604): chmod 600 it",
		},
		"a key cut short": {
			func(dir string) error { return os.Truncate(filepath.Join(dir, "token"), 60) }, "token: want 64 hexadecimal digits",
		},
		"a key that is none": {
			func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "kept"), []byte(strings.Repeat("x", 64)), 0o600)
			}, "kept: want 64 hexadecimal digits",
		},
		"a key that leads elsewhere": {
			func(dir string) error {
				path := filepath.Join(dir, "token")
				if err := os.Rename(path, path+".real"); err != nil {
					return err
				}
				return os.Symlink("token.real", path)
			}, "token: not a regular file",
		},
		"the secret of the agents lost": {
			func(dir string) error { return os.Remove(filepath.Join(dir, "kept")) }, "kept is missing",
		},
		"a file where the folder should be": {
			func(dir string) error {
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
				return os.WriteFile(dir, nil, 0o600)
			}, "not a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeKeys(t)
			if err := test.spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err := identity.OpenKeyring(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestKeyringMakesOnlyMissingKeys(t *testing.T) {
	for _, name := range []string{"registry", "server", "token"} {
		t.Run(name, func(t *testing.T) {
			dir := writeKeys(t)
			before := openKeys(t, dir)
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			after := openKeys(t, dir)
			for key, changed := range map[string]bool{
				"registry": after.Registry != before.Registry,
				"server":   after.Server != before.Server,
				"token":    after.Token != before.Token,
				"kept":     after.Kept != before.Kept,
			} {
				if changed != (key == name) {
					t.Errorf("%s: made again: %t", key, changed)
				}
			}
		})
	}
}
