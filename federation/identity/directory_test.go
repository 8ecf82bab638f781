package identity_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
	"baton/federation/identity"
)

// web is an imagined web of documents. It is asked by one test at a time.
type web struct {
	pages map[string]string // by address
	down  bool
	asked []string
}

func (w *web) Get(_ context.Context, address string) ([]byte, error) {
	w.asked = append(w.asked, address)
	page, ok := w.pages[address]
	switch {
	case w.down:
		return nil, &federation.UnavailableError{What: "the web", Err: errors.New("timeout")}
	case !ok:
		return nil, fmt.Errorf("fetch: %w", federation.ErrNotFound)
	}
	return []byte(page), nil
}

// page is the document of a DID with one key.
func page(did federation.DID, key ed25519.PublicKey) string {
	return fmt.Sprintf(`{"id": %q, "verificationMethod": [{"id": "#k", "type": "Multikey", "publicKeyMultibase": %q}]}`, did, multikey(key))
}

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func TestWhereTheDocumentOfAWebDIDIs(t *testing.T) {
	key := seededKey('a')
	for did, address := range map[federation.DID]string{
		"did:web:alice.example":               "https://alice.example/.well-known/did.json",
		"did:web:alice.example%3A8443":        "https://alice.example:8443/.well-known/did.json",
		"did:web:alice.example:users:a.b":     "https://alice.example/users/a.b/did.json",
		"did:web:alice.example%3A8443:a%20b":  "https://alice.example:8443/a%20b/did.json",
		"did:web:gw.example:airc:local:scout": "https://gw.example/airc/local/scout/did.json",
	} {
		t.Run(string(did), func(t *testing.T) {
			w := &web{pages: map[string]string{address: page(did, key)}}
			got, err := identity.NewDirectory(w).Resolve(t.Context(), did, noon())
			if err != nil {
				t.Fatalf("%v, after asking %q", err, w.asked)
			}
			want := federation.Document{DID: did, Keys: []ed25519.PublicKey{key}, Fetched: noon()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWebDIDsThatLeadNowhere(t *testing.T) {
	for _, did := range []federation.DID{
		"did:web:alice.example:..",
		"did:web:alice.example:%2E%2E:x",
		"did:web:alice.example:a%2Fb",
		"did:web:alice.example:a::b",
		"did:web:alice.example%2Fx",
		"did:web:alice.example%3Ax",
		"did:web:alice.example%23x",
		"did:web:bob%40alice.example",
		"did:web:%3A80",
	} {
		t.Run(string(did), func(t *testing.T) {
			w := &web{}
			if _, err := identity.NewDirectory(w).Resolve(t.Context(), did, noon()); err == nil || len(w.asked) > 0 {
				t.Errorf("got error %v after asking %q, want an error and no request", err, w.asked)
			}
		})
	}
}

func TestKeyDIDsResolveWithoutAsking(t *testing.T) {
	w := &web{down: true}
	key := seededKey('a')
	got, err := identity.NewDirectory(w).Resolve(t.Context(), identity.KeyDID(key), noon())
	if err != nil {
		t.Fatal(err)
	}
	want := federation.Document{DID: identity.KeyDID(key), Keys: []ed25519.PublicKey{key}, Fetched: noon()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(w.asked) > 0 {
		t.Errorf("asked %q", w.asked)
	}
}

func TestOwnDIDsResolveWithoutAsking(t *testing.T) {
	w := &web{pages: map[string]string{"https://alice.example/.well-known/did.json": page(alice, seededKey('x'))}}
	directory := identity.NewDirectory(w,
		federation.SigningKey{DID: alice, Public: seededKey('a')},
		federation.SigningKey{DID: alice, Public: seededKey('b')},
	)
	got, err := directory.Resolve(t.Context(), alice, noon())
	if err != nil {
		t.Fatal(err)
	}
	want := federation.Document{DID: alice, Keys: []ed25519.PublicKey{seededKey('a'), seededKey('b')}, Fetched: noon()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(w.asked) > 0 {
		t.Errorf("asked %q", w.asked)
	}
	if _, err := directory.Resolve(t.Context(), alice+":users:amy", noon()); err == nil || len(w.asked) != 1 {
		t.Errorf("a DID below its own: got error %v after asking %q, want that of the web", err, w.asked)
	}
}

func TestWhatCannotBeLookedUpIsNotFalse(t *testing.T) {
	for name, test := range map[string]struct {
		did         federation.DID
		web         *web
		unavailable bool
	}{
		"a host that is down":               {alice, &web{down: true}, true},
		"a method that is not resolved":     {"did:plc:z72i7hdynmk6r22z27h6tvur", &web{}, true},
		"a host that says there is nothing": {alice, &web{}, false},
		"a page that is no document":        {alice, &web{pages: map[string]string{"https://alice.example/.well-known/did.json": "<html>"}}, false},
		"a did:key that is none":            {"did:key:z6Mk", &web{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := identity.NewDirectory(test.web).Resolve(t.Context(), test.did, noon())
			if err == nil {
				t.Fatal("want an error")
			}
			if _, got := errors.AsType[*federation.UnavailableError](err); got != test.unavailable {
				t.Errorf("got %v; unavailable: want %t", err, test.unavailable)
			}
		})
	}
}

func TestHowLongAnAnswerIsRemembered(t *testing.T) {
	const address = "https://alice.example/.well-known/did.json"
	good := map[string]string{address: page(alice, seededKey('a'))}
	for name, test := range map[string]struct {
		web       *web
		after     time.Duration
		wantAsked int
	}{
		"a document for an hour":       {&web{pages: good}, time.Hour - 1, 1},
		"a document not longer":        {&web{pages: good}, time.Hour, 2},
		"that there is none, a minute": {&web{}, time.Minute - 1, 1},
		"that there is none no longer": {&web{}, time.Minute, 2},
		"an outage not at all":         {&web{down: true}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			directory := identity.NewDirectory(test.web)
			first, firstErr := directory.Resolve(t.Context(), alice, noon())
			second, secondErr := directory.Resolve(t.Context(), alice, noon().Add(test.after))
			if len(test.web.asked) != test.wantAsked {
				t.Errorf("asked %d times, want %d", len(test.web.asked), test.wantAsked)
			}
			if diff := cmp.Diff(first.Keys, second.Keys); diff != "" || (firstErr == nil) != (secondErr == nil) {
				t.Errorf("answers differ: %v, %v: %s", firstErr, secondErr, diff)
			}
		})
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	w := &web{pages: map[string]string{}}
	directory := identity.NewDirectory(w)
	resolve := func(i int, now time.Time) {
		did := federation.DID(fmt.Sprintf("did:web:h%d.example", i))
		w.pages[fmt.Sprintf("https://h%d.example/.well-known/did.json", i)] = page(did, seededKey('a'))
		if _, err := directory.Resolve(t.Context(), did, now); err != nil {
			t.Fatal(err)
		}
	}
	for i := range identity.MaxDocuments {
		resolve(i, noon().Add(time.Duration(i)))
	}
	resolve(identity.MaxDocuments, noon().Add(time.Minute)) // in place of the oldest, h0
	w.asked = nil
	resolve(1, noon().Add(time.Minute))
	resolve(0, noon().Add(time.Minute))
	if got := strings.Join(w.asked, " "); got != "https://h0.example/.well-known/did.json" {
		t.Errorf("asked %s again, want the oldest alone", got)
	}
}

// owners knows one key.
type owners map[string]federation.DID

func (o owners) KeyOwner(_ context.Context, keyID string) (federation.DID, error) {
	if did, ok := o[keyID]; ok {
		return did, nil
	}
	return "", federation.ErrNotFound
}

func TestAKeySourceHasKeysAndOwners(t *testing.T) {
	key := seededKey('a')
	did := identity.KeyDID(key)
	var source federation.KeySource = identity.NewKeySource(identity.NewDirectory(&web{}), owners{federation.KeyID(key): did})
	keys, err := source.Keys(t.Context(), did, noon())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ed25519.PublicKey{key}, keys); diff != "" {
		t.Error(diff)
	}
	if _, err := source.Keys(t.Context(), "did:web:none.example", noon()); err == nil {
		t.Error("keys of nobody: want an error")
	}
	if got, err := source.KeyOwner(t.Context(), federation.KeyID(key)); got != did || err != nil {
		t.Errorf("owner: got %s, %v", got, err)
	}
	if _, err := source.KeyOwner(t.Context(), "unknown"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("owner of an unknown key: got %v, want ErrNotFound", err)
	}
}
