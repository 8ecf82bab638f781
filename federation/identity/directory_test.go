package identity_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// web is an imagined web of documents. It is asked by one test at a time.
type web struct {
	pages map[string]string // by address
	down  bool
	err   error // of each request; nil for none
	asked []string
}

func (w *web) Get(_ context.Context, address string) ([]byte, error) {
	w.asked = append(w.asked, address)
	page, ok := w.pages[address]
	switch {
	case w.err != nil:
		return nil, w.err
	case w.down:
		return nil, &federation.UnavailableError{What: "the web", Err: errors.New("timeout")}
	case !ok:
		return nil, fmt.Errorf("fetch: %w", federation.ErrNotFound)
	}
	return []byte(page), nil
}

func page(did federation.DID, key ed25519.PublicKey) string {
	return fmt.Sprintf(`{"id": %q, "verificationMethod": [{"id": "#k", "type": "Multikey", "publicKeyMultibase": %q}]}`, did, multikey(key))
}

// newDirectory is a directory with the lifetimes that a configuration has when it
// names none.
func newDirectory(fetcher identity.Fetcher, own ...federation.SigningKey) *identity.Directory {
	return identity.NewDirectory(identity.DirectoryConfig{
		PLC: plcAddress, Fresh: time.Hour, Negative: time.Minute, Stale: 24 * time.Hour,
	}, fetcher, own...)
}

// plcAddress is the address of the did:plc directory of these tests.
const plcAddress = "https://plc.example"

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func TestWebDIDDocumentURL(t *testing.T) {
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
			got, err := newDirectory(w).Resolve(t.Context(), did, noon())
			if err != nil {
				t.Fatalf("%v, after asking %q", err, w.asked)
			}
			want := federation.Document{DID: did, Keys: []ed25519.PublicKey{key}, Source: address, Fetched: noon()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWebDIDRefusesOtherForms(t *testing.T) {
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
		"did:web:alice.example.",
		"did:web:alice.example%3A443",
		"did:web:alice.example%3A08443",
		"did:web:alice.example%3A",
		"did:web:%41lice.example",
		"did:web:ALICE.example",
	} {
		t.Run(string(did), func(t *testing.T) {
			w := &web{}
			if _, err := newDirectory(w).Resolve(t.Context(), did, noon()); err == nil || len(w.asked) > 0 {
				t.Errorf("got error %v after asking %q, want an error and no request", err, w.asked)
			}
		})
	}
}

func TestResolveKeyDIDsLocally(t *testing.T) {
	w := &web{down: true}
	key := seededKey('a')
	got, err := newDirectory(w).Resolve(t.Context(), identity.KeyDID(key), noon())
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

func TestResolveOwnDIDsLocally(t *testing.T) {
	w := &web{pages: map[string]string{"https://alice.example/.well-known/did.json": page(alice, seededKey('x'))}}
	directory := newDirectory(w,
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

func TestResolveReturnsUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		did         federation.DID
		web         *web
		unavailable bool
	}{
		"a host that is down":               {alice, &web{down: true}, true},
		"a method that is not resolved":     {"did:ion:abc", &web{}, true},
		"a host that says there is nothing": {alice, &web{}, false},
		"a page that is no document":        {alice, &web{pages: map[string]string{"https://alice.example/.well-known/did.json": "<html>"}}, false},
		"a did:key that is none":            {"did:key:z6Mk", &web{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newDirectory(test.web).Resolve(t.Context(), test.did, noon())
			if err == nil {
				t.Fatal("want an error")
			}
			if _, got := errors.AsType[*federation.UnavailableError](err); got != test.unavailable {
				t.Errorf("got %v; unavailable: want %t", err, test.unavailable)
			}
		})
	}
}

func TestDirectoryCachesAnswers(t *testing.T) {
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
		"an outage some seconds":       {&web{down: true}, identity.AwayFor - 1, 1},
		"an outage no longer":          {&web{down: true}, identity.AwayFor, 2},
	} {
		t.Run(name, func(t *testing.T) {
			directory := newDirectory(test.web)
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

func TestDirectoryServesStaleDocuments(t *testing.T) {
	const address = "https://alice.example/.well-known/did.json"
	w := &web{pages: map[string]string{address: page(alice, seededKey('a'))}}
	directory := newDirectory(w)
	resolve := func(after time.Duration) (federation.Document, error) {
		return directory.Resolve(t.Context(), alice, noon().Add(after))
	}
	first, err := resolve(0)
	if err != nil {
		t.Fatal(err)
	}
	w.down = true
	for _, after := range []time.Duration{time.Hour, time.Hour + identity.AwayFor - 1, 24*time.Hour - 1} {
		if got, err := resolve(after); err != nil || !cmp.Equal(first, got) {
			t.Errorf("after %v: %+v, %v, want the first document", after, got, err)
		}
	}
	if len(w.asked) != 3 { // at the start, after an hour, and at the end
		t.Errorf("asked %d times, want 3", len(w.asked))
	}
	_, err = resolve(24*time.Hour + identity.AwayFor)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		t.Errorf("after a day: %v, want unavailable", err)
	}
	w.down, w.pages = false, map[string]string{}
	if _, err = resolve(25 * time.Hour); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a host that says there is nothing: %v, want ErrNotFound", err)
	}
}

func TestRefreshAsksAgainOnceIn30Seconds(t *testing.T) {
	const address = "https://alice.example/.well-known/did.json"
	w := &web{pages: map[string]string{address: page(alice, seededKey('a'))}}
	directory := newDirectory(w)
	if _, err := directory.Resolve(t.Context(), alice, noon()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		after time.Duration
		down  bool
		want  int // requests in all
	}{
		{time.Millisecond, false, 2}, // the first request does not count
		{time.Second, false, 2},
		{30 * time.Second, false, 2},
		{30*time.Second + time.Millisecond, true, 3},
		{time.Minute, false, 3},
		{time.Minute + time.Millisecond, false, 4},
	} {
		w.down = tt.down
		if _, err := directory.Refresh(t.Context(), alice, noon().Add(tt.after)); err != nil {
			t.Fatal(err)
		}
		if len(w.asked) != tt.want {
			t.Errorf("after %v: asked %d times, want %d", tt.after, len(w.asked), tt.want)
		}
	}
	if got, err := directory.Refresh(t.Context(), identity.KeyDID(seededKey('b')), noon()); err != nil || len(got.Keys) != 1 {
		t.Errorf("a did:key: %+v, %v", got, err)
	}
}

type gate struct {
	web

	entered chan struct{}
	open    chan struct{}
}

func (g *gate) Get(ctx context.Context, address string) ([]byte, error) {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return g.web.Get(ctx, address)
	case <-ctx.Done():
		return nil, &federation.UnavailableError{What: address, Err: ctx.Err()}
	}
}

func TestResolveSharesOneFetch(t *testing.T) {
	const address = "https://alice.example/.well-known/did.json"
	synctest.Test(t, func(t *testing.T) {
		g := &gate{
			web:     web{pages: map[string]string{address: page(alice, seededKey('a'))}},
			entered: make(chan struct{}, 100), open: make(chan struct{}),
		}
		directory := newDirectory(g)
		impatient, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := directory.Resolve(impatient, alice, noon())
			left <- err
		}()
		<-g.entered
		var waiting sync.WaitGroup
		for range 50 {
			waiting.Go(func() {
				if document, err := directory.Resolve(t.Context(), alice, noon()); err != nil || len(document.Keys) != 1 {
					t.Errorf("got %+v, %v", document, err)
				}
			})
		}
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left got %v, want canceled", err)
		}
		close(g.open)
		waiting.Wait()
		if len(g.asked) != 1 {
			t.Errorf("asked %d times, want once", len(g.asked))
		}
	})
}

func TestResolveEndsWithItsLastCaller(t *testing.T) {
	const address = "https://alice.example/.well-known/did.json"
	synctest.Test(t, func(t *testing.T) {
		g := &gate{
			web:     web{pages: map[string]string{address: page(alice, seededKey('a'))}},
			entered: make(chan struct{}, 2), open: make(chan struct{}),
		}
		directory := newDirectory(g)
		caller, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := directory.Resolve(caller, alice, noon())
			left <- err
		}()
		<-g.entered
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller got %v, want canceled", err)
		}
		synctest.Wait() // the request has ended too, or this test does not
		close(g.open)
		if document, err := directory.Resolve(t.Context(), alice, noon()); err != nil || len(document.Keys) != 1 {
			t.Errorf("the next caller got %+v, %v", document, err)
		}
	})
}

func TestDirectoryCacheIsBounded(t *testing.T) {
	w := &web{}
	directory := newDirectory(w)
	for i := range 2 * identity.MaxDocuments {
		did := federation.DID(fmt.Sprintf("did:web:h%d.example", i))
		if _, err := directory.Resolve(t.Context(), did, noon()); !errors.Is(err, federation.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if n := identity.Remembered(directory); n > identity.MaxDocuments {
		t.Errorf("%d answers are remembered, want %d at most", n, identity.MaxDocuments)
	}
}
