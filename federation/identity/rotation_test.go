package identity_test

import (
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func ring(t *testing.T, dir string) *identity.Keyring {
	t.Helper()
	keys, err := identity.OpenKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func ids(keys []federation.OwnKey) []string {
	var names []string
	for _, key := range keys {
		names = append(names, federation.KeyID(key.Public))
	}
	return names
}

func TestRotatedKeyIsValidDuringItsOverlap(t *testing.T) {
	dir := writeKeys(t)
	keys := ring(t, dir)
	before, registry := keys.Server("gw.example"), keys.Registry()
	now := noon()
	made, err := keys.Rotate(identity.ServerKey, 24*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	after := keys.Server("gw.example")
	if after.Public.Equal(before.Public) || !after.Public.Equal(made.Public) || after.DID != "did:web:gw.example" {
		t.Errorf("after the rotation %s signs, %s was made", federation.KeyID(after.Public), federation.KeyID(made.Public))
	}
	if !keys.Registry().Public.Equal(registry.Public) {
		t.Error("the other key changed with it")
	}
	message := []byte("after")
	if sig, err := after.Sign(t.Context(), message); err != nil || !ed25519.Verify(made.Public, message, sig) {
		t.Errorf("the new key does not sign: %v", err)
	}
	both := []string{federation.KeyID(after.Public), federation.KeyID(before.Public)}
	for name, k := range map[string]*identity.Keyring{"at once": keys, "after a restart": ring(t, dir)} {
		for _, at := range []time.Duration{0, 24*time.Hour - 1} {
			if diff := cmp.Diff(both, ids(k.Good(identity.ServerKey, now.Add(at)))); diff != "" {
				t.Errorf("%s, after %v: %s", name, at, diff)
			}
		}
		if diff := cmp.Diff(both[:1], ids(k.Good(identity.ServerKey, now.Add(24*time.Hour)))); diff != "" {
			t.Errorf("%s, after the overlap: %s", name, diff)
		}
	}
}

func TestRotationPublishesBothKeys(t *testing.T) {
	keys := ring(t, writeKeys(t))
	old := keys.Server("gw.example")
	if _, err := keys.Rotate(identity.ServerKey, time.Hour, noon()); err != nil {
		t.Fatal(err)
	}
	var retiring []ed25519.PublicKey
	for _, key := range keys.Good(identity.ServerKey, noon())[1:] {
		retiring = append(retiring, key.Public)
	}
	served := string(identity.DIDDocument(keys.Server("gw.example"), "", retiring...))
	w := &web{pages: map[string]string{"https://gw.example/.well-known/did.json": served}}
	document, err := newDirectory(w).Resolve(t.Context(), "did:web:gw.example", noon())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ed25519.PublicKey{keys.Server("gw.example").Public, old.Public}, document.Keys); diff != "" {
		t.Error(diff)
	}
}

func TestRotationListsTheHistoryOfAKey(t *testing.T) {
	dir := writeKeys(t)
	if err := os.Chtimes(filepath.Join(dir, "registry"), noon(), noon()); err != nil {
		t.Fatal(err)
	}
	first := ring(t, dir).Registry()
	one, two := noon().Add(time.Hour), noon().Add(2*time.Hour)
	for _, at := range []time.Time{one, two} {
		if _, err := ring(t, dir).Rotate(identity.RegistryKey, 90*time.Minute, at); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := identity.ListKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	listed = slices.DeleteFunc(listed, func(k identity.NamedKey) bool { return k.Name != identity.RegistryKey })
	var got []string
	for _, key := range listed {
		got = append(got, key.Since.UTC().Format(time.TimeOnly)+" "+key.State(noon().Add(3*time.Hour)))
	}
	if diff := cmp.Diff([]string{"14:00:00 active", "13:00:00 retiring", "12:00:00 retired"}, got); diff != "" {
		t.Error(diff)
	}
	if !listed[2].Public.Equal(first.Public) {
		t.Error("the first key is not the oldest")
	}
}

// Gateways of one home have one folder. Each retires the key made by the other one, at the same
// time too, and learns of it when it reads the files again.
func TestRotationIsSerializedAcrossGateways(t *testing.T) {
	dir := writeKeys(t)
	gateways := []*identity.Keyring{ring(t, dir), ring(t, dir)}
	first := gateways[0].Server("gw.example")
	const rotations = 5
	var rotating sync.WaitGroup
	for _, keys := range gateways {
		rotating.Go(func() {
			for range rotations {
				if _, err := keys.Rotate(identity.ServerKey, time.Hour, noon()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	rotating.Wait()
	for i, keys := range gateways {
		if _, err := keys.Reread(); err != nil {
			t.Fatal(err)
		}
		if changed, err := keys.Reread(); changed || err != nil {
			t.Errorf("gateway %d reads others again: %t, %v", i, changed, err)
		}
		good := ids(keys.Good(identity.ServerKey, noon()))
		slices.Sort(good)
		if len(slices.Compact(slices.Clone(good))) != 2*rotations+1 || !slices.Contains(good, federation.KeyID(first.Public)) {
			t.Errorf("gateway %d knows the keys %v", i, good)
		}
	}
	if one, other := gateways[0].Server("gw.example"), gateways[1].Server("gw.example"); !one.Public.Equal(other.Public) {
		t.Errorf("one signs with %s, and the other with %s", federation.KeyID(one.Public), federation.KeyID(other.Public))
	}
	if err := os.WriteFile(filepath.Join(dir, "server"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := gateways[0].Server("gw.example")
	if changed, err := gateways[0].Reread(); changed || err == nil || !gateways[0].Server("gw.example").Public.Equal(before.Public) {
		t.Errorf("a file that cannot be read: %t, %v", changed, err)
	}
}

// The list of retired keys is written before the new key. A power cut in between leaves a retired
// key that signs.
func TestRotationInterruptedLeavesTheOldKey(t *testing.T) {
	dir := writeKeys(t)
	before := ring(t, dir).Registry()
	seed, err := os.ReadFile(filepath.Join(dir, "registry"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring(t, dir).Rotate(identity.RegistryKey, time.Hour, noon()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "registry"), seed, 0o600); err != nil {
		t.Fatal(err)
	}
	keys := ring(t, dir)
	if diff := cmp.Diff([]string{federation.KeyID(before.Public)}, ids(keys.Good(identity.RegistryKey, noon()))); diff != "" {
		t.Error(diff)
	}
	if state := keys.Good(identity.RegistryKey, noon())[0].State(noon()); state != "active" {
		t.Errorf("it is %s, want active", state)
	}
}

func TestRotateRefuses(t *testing.T) {
	keys := ring(t, writeKeys(t))
	if _, err := keys.Rotate(identity.EndpointKey, time.Hour, noon()); !errors.Is(err, identity.ErrNotRotated) {
		t.Errorf("the endpoint: %v", err)
	}
	if _, err := keys.Rotate(identity.ServerKey, 0, noon()); !errors.Is(err, identity.ErrNotRotated) {
		t.Errorf("without an overlap: %v", err)
	}
	if len(keys.Good(identity.ServerKey, noon())) != 1 {
		t.Error("it was rotated")
	}
}

func TestRotationWithoutWritesChangesNothing(t *testing.T) {
	dir := writeKeys(t)
	keys := ring(t, dir)
	before := keys.Server("gw.example")
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Rotate(identity.ServerKey, time.Hour, noon()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no such folder", err)
	}
	if !keys.Server("gw.example").Public.Equal(before.Public) || len(keys.Good(identity.ServerKey, noon())) != 1 {
		t.Error("another key signs, and no file has it")
	}
}

func TestRetiredKeysErrorsAreReturned(t *testing.T) {
	dir := writeKeys(t)
	if err := os.WriteFile(filepath.Join(dir, "retired"), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.OpenKeyring(dir); err == nil || !strings.Contains(err.Error(), "retired") {
		t.Errorf("got %v, want the name of the file", err)
	}
}

func TestKeysAreCreatedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "keys")
	for _, name := range identity.KeyNames() {
		made, err := identity.CreateKey(dir, name, false, "", noon())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := identity.CreateKey(dir, name, false, "", noon()); !errors.Is(err, identity.ErrKeyExists) {
			t.Errorf("a second %s: %v, want %v", name, err, identity.ErrKeyExists)
		}
		listed, err := identity.ListKeys(dir)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(listed, func(k identity.NamedKey) bool { return k.Name == name })
		if at < 0 || !listed[at].Public.Equal(made.Public) {
			t.Errorf("%s is not the one that was made", name)
		}
		if info, err := os.Stat(filepath.Join(dir, string(name))); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", name, info.Mode(), err)
		}
	}
	keys := ring(t, dir) // the first start finds them
	if listed, err := identity.ListKeys(dir); err != nil || !listed[0].Public.Equal(keys.Server("gw.example").Public) {
		t.Errorf("the first start made another key (%v)", err)
	}
}

func TestReplacedKeyIsRetiredAtOnce(t *testing.T) {
	dir := writeKeys(t)
	before := ring(t, dir).Server("gw.example")
	made, err := identity.CreateKey(dir, identity.ServerKey, true, "", noon())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{federation.KeyID(made.Public)}, ids(ring(t, dir).Good(identity.ServerKey, noon()))); diff != "" {
		t.Error(diff)
	}
	listed, err := identity.ListKeys(dir)
	if err != nil || len(listed) < 2 || !listed[1].Public.Equal(before.Public) || listed[1].State(noon()) != "retired" {
		t.Errorf("the old one is not in the history: %v %v", listed, err)
	}
}

func TestEndpointKeyHasASmallID(t *testing.T) {
	made, err := identity.CreateKey(filepath.Join(t.TempDir(), "keys"), identity.EndpointKey, false, "00", noon())
	if err != nil {
		t.Fatal(err)
	}
	if id := identity.EndpointID(made.Public); len(id) != 64 || !strings.HasPrefix(id, "00") {
		t.Errorf("its id is %s", id)
	}
}

func TestKeyFolderWithoutFolderIsEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if keys, err := identity.ListKeys(dir); len(keys) != 0 || err != nil {
		t.Errorf("got %v, %v", keys, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking made it: %v", err)
	}
	if _, err := identity.ParseKeyName("token"); err == nil {
		t.Error("the secret of the tokens is named as a key")
	}
}
