package identity_test

import (
	"context"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secp256k1ecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestProvedAcceptsASignatureOfTheDID(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	message := []byte(`{"nonce":"x"}`)
	digest := sha256.Sum256(message)
	compact := secp256k1ecdsa.SignCompact(curve, digest[:], true)[1:] // without the byte that recovers the key
	did := identity.KeyDID(public)
	other := identity.PublicKeyDID(federation.PublicKey{Kind: federation.Secp256k1, Bytes: curve.PubKey().SerializeCompressed()})
	revoked, revokedPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ended := identity.KeyDID(revoked)
	record := storetest.Open(t)
	source := identity.NewKeySource(identity.KeySourceConfig{}, identity.NewDirectory(identity.DirectoryConfig{}, nil), nil, record)
	if err := source.Revoke(t.Context(), ended, federation.KeyID(revoked), time.Now()); err != nil {
		t.Fatal(err)
	}
	weak := make([]byte, 32) // of order 4
	forged := append(append([]byte{1}, make([]byte, 31)...), make([]byte, 32)...)
	low := newP256(1)
	high := mirrored(low, elliptic.P256().Params().N)
	for name, tt := range map[string]struct {
		did       federation.DID
		signature []byte
		want      federation.Verdict
	}{
		"with Ed25519":                                   {did, ed25519.Sign(private, message), federation.Valid},
		"with secp256k1":                                 {other, compact, federation.Valid},
		"with P-256":                                     {federation.DID(low.did()), low.sign(digest), federation.Valid},
		"with P-256 and the higher s":                    {federation.DID(low.did()), high.sign(digest), federation.Valid},
		"not with another message":                       {did, ed25519.Sign(private, []byte("x")), federation.Invalid},
		"not with another key":                           {other, ed25519.Sign(private, message), federation.Invalid},
		"not without a signature":                        {did, nil, federation.Invalid},
		"not as a DID that is none":                      {"did:key:zzz", ed25519.Sign(private, message), federation.Invalid},
		"not with a key that was revoked":                {ended, ed25519.Sign(revokedPrivate, message), federation.Invalid},
		"not with a key of small order":                  {keyDID("\xed\x01", weak), forged, federation.Invalid},
		"nor can it be told of one that is not resolved": {"did:example:x", ed25519.Sign(private, message), federation.Unverifiable},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, err := source.Proved(t.Context(), tt.did, message, tt.signature, time.Now())
			if got != tt.want || err == nil && tt.want == federation.Unverifiable || err != nil && tt.want == federation.Valid {
				t.Errorf("verdict %v, error %v, want %v", got, err, tt.want)
			}
		})
	}
}

// A login with a key just added to the document is accepted. A login with the replaced key is
// rejected once the document was fetched again. Failed proofs cause one request in 30 seconds.
func TestProvedFetchesAReplacedDocumentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, oldPrivate, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		current, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		const address = "https://alice.example/.well-known/did.json"
		w := &web{pages: map[string]string{address: page(alice, old)}}
		var listed [][]string
		directory := identity.NewDirectory(identity.DirectoryConfig{
			Fresh: time.Hour, Negative: time.Minute, Stale: 24 * time.Hour,
			Fetched: func(_ context.Context, _ federation.DID, document federation.Document, err error) error {
				if err == nil {
					listed = append(listed, document.KeyIDs())
				}
				return nil
			},
		}, w)
		source, logins := newKeySource(directory, w, storetest.Open(t)), identity.NewLogins()
		message := []byte("challenge")
		prove := func(key ed25519.PrivateKey, want federation.Verdict, asked int) {
			t.Helper()
			_, got, err := logins.Proved(t.Context(), source, alice, message, ed25519.Sign(key, message), time.Now())
			if got != want || len(w.asked) != asked || (err != nil) != (want == federation.Unverifiable) {
				t.Errorf("%v, %v after %d requests, want %v after %d", got, err, len(w.asked), want, asked)
			}
		}
		prove(private, federation.Invalid, 1) // the document was fetched for this proof
		prove(oldPrivate, federation.Valid, 1)
		time.Sleep(time.Second)
		w.pages[address] = page(alice, current)
		prove(private, federation.Valid, 2)
		prove(oldPrivate, federation.Invalid, 2)
		time.Sleep(29 * time.Second)
		prove(oldPrivate, federation.Invalid, 2)
		time.Sleep(2 * time.Second)
		prove(oldPrivate, federation.Invalid, 3)
		time.Sleep(time.Minute)
		w.down = true
		prove(oldPrivate, federation.Unverifiable, 4) // an outage is no verdict
		prove(private, federation.Valid, 4)
		if diff := cmp.Diff([][]string{{federation.KeyID(old)}, {federation.KeyID(current)}, {federation.KeyID(current)}}, listed); diff != "" {
			t.Error(diff)
		}
	})
}

func TestProvedNamesFaultsOfTheDocument(t *testing.T) {
	const address = "https://alice.example/.well-known/did.json"
	message := []byte("challenge")
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	unreadable := `, "verificationMethod": [{"id": "#u", "type": "Multikey", "publicKeyMultibase": "u7QEd"}]`
	moved := fmt.Errorf("%w: to https://www.alice.example/", identity.ErrRedirect)
	for name, tt := range map[string]struct {
		page string
		err  error
		want string
	}{
		"a key that cannot be read": {page: document(unreadable), want: "unusable keys in its document: 1, such as did:web:alice.example#u: want a key in base58btc, which starts with z"},
		"no JSON":                   {page: "<html>", want: "resolve did:web:alice.example: parse document of did:web:alice.example: invalid character '<' looking for beginning of value"},
		"another document":          {page: `{"id":"did:web:bob.example"}`, want: `resolve did:web:alice.example: parse document of did:web:alice.example: it belongs to "did:web:bob.example"`},
		"a redirect": {
			err:  &federation.UnavailableError{What: "alice.example", Err: moved},
			want: "resolve did:web:alice.example: " + (&federation.UnavailableError{What: "alice.example", Err: moved}).Error(),
		},
		"a private address": {err: fmt.Errorf("fetch %s: %w: 10.1.2.3", address, identity.ErrPrivate), want: "address not allowed"},
		"another key":       {page: page(alice, seededKey('a')), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &web{pages: map[string]string{address: tt.page}, err: tt.err}
			_, verdict, err := newKeySource(newDirectory(w), w, storetest.Open(t)).Proved(t.Context(), alice, message, ed25519.Sign(private, message), noon())
			got := ""
			if err != nil {
				got = err.Error()
			}
			if verdict != federation.Invalid || got != tt.want {
				t.Errorf("%v, %q, want %q", verdict, got, tt.want)
			}
		})
	}
}
