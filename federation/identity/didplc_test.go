package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secp256k1ecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// rotationKey signs operations of a did:plc.
type rotationKey struct {
	public federation.PublicKey
	sign   func(digest [32]byte) []byte // r and s
}

func (k rotationKey) did() string { return string(identity.PublicKeyDID(k.public)) }

func newP256(seed byte) rotationKey {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), slices.Repeat([]byte{seed}, 32))
	if err != nil {
		panic(err)
	}
	point, err := key.PublicKey.Bytes() // 4, x and y
	if err != nil {
		panic(err)
	}
	return rotationKey{
		public: federation.PublicKey{Kind: federation.P256, Bytes: append([]byte{2 + point[64]&1}, point[1:33]...)},
		sign: func(digest [32]byte) []byte {
			r, s, err := ecdsa.Sign(constant{}, key, digest[:])
			if err != nil {
				panic(err)
			}
			if n := elliptic.P256().Params().N; s.Cmp(new(big.Int).Rsh(n, 1)) > 0 {
				s.Sub(n, s)
			}
			return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		},
	}
}

// constant is no randomness: ECDSA does without.
type constant struct{}

func (constant) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func newSecp256k1(seed byte) rotationKey {
	key := secp256k1.PrivKeyFromBytes(slices.Repeat([]byte{seed}, 32))
	return rotationKey{
		public: federation.PublicKey{Kind: federation.Secp256k1, Bytes: key.PubKey().SerializeCompressed()},
		sign: func(digest [32]byte) []byte {
			return secp256k1ecdsa.SignCompact(key, digest[:], true)[1:] // without the recovery code
		},
	}
}

func cborHead(major byte, n int) []byte {
	switch {
	case n < 24:
		return []byte{major<<5 | byte(n)}
	case n < 256:
		return []byte{major<<5 | 24, byte(n)}
	}
	return []byte{major<<5 | 25, byte(n >> 8), byte(n)}
}

// dag writes DAG-CBOR only from the published rules: it shares no code with the tested code.
func dag(value any) []byte {
	switch v := value.(type) {
	case nil:
		return []byte{0xf6}
	case string:
		return append(cborHead(3, len(v)), v...)
	case []any:
		out := cborHead(4, len(v))
		for _, item := range v {
			out = append(out, dag(item)...)
		}
		return out
	case map[string]any:
		var names []string
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		})
		out := cborHead(5, len(v))
		for _, name := range names {
			out = append(append(out, dag(name)...), dag(v[name])...)
		}
		return out
	}
	panic("no DAG-CBOR")
}

func lower32(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// ledger is the log of one did:plc, as its directory serves it.
type ledger struct {
	did     federation.DID
	entries []map[string]any
}

// add signs an operation and lists it as entry n; prev is the entry that it follows,
// -1 for none.
func (l *ledger) add(key rotationKey, hour, prev int, operation map[string]any) {
	operation["prev"] = nil
	if prev >= 0 {
		operation["prev"] = l.entries[prev]["cid"]
	}
	unsigned := sha256.Sum256(dag(operation))
	operation["sig"] = base64.RawURLEncoding.EncodeToString(key.sign(unsigned))
	digest := sha256.Sum256(dag(operation))
	if len(l.entries) == 0 {
		l.did = federation.DID("did:plc:" + lower32(digest[:])[:24])
	}
	l.entries = append(l.entries, map[string]any{
		"did": string(l.did), "operation": operation, "nullified": false,
		"cid":       "b" + lower32(append([]byte("\x01\x71\x12\x20"), digest[:]...)),
		"createdAt": noon().Add(time.Duration(hour) * time.Hour).Format("2006-01-02T15:04:05.000Z"),
	})
}

func update(signs byte, keys ...rotationKey) map[string]any {
	rotation := make([]any, 0, len(keys))
	for _, key := range keys {
		rotation = append(rotation, key.did())
	}
	return map[string]any{
		"type": "plc_operation", "rotationKeys": rotation, "alsoKnownAs": []any{"at://alice.example"}, "services": map[string]any{},
		"verificationMethods": map[string]any{"step": string(identity.KeyDID(seededKey(signs)))},
	}
}

func (l *ledger) page() string {
	text, err := json.Marshal(l.entries)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (l *ledger) nullify(entries ...int) {
	for _, n := range entries {
		l.entries[n]["nullified"] = true
	}
}

func (l *ledger) address() string { return plcAddress + "/" + string(l.did) + "/log/audit" }

func (l *ledger) resolve(t *testing.T) (federation.Document, error) {
	t.Helper()
	return newDirectory(&web{pages: map[string]string{l.address(): l.page()}}).Resolve(t.Context(), l.did, noon())
}

// newLedger has a first operation at hour 0, by a strong key and a weak one, and a
// second at hour 1, signed by the weak one.
func newLedger() (l *ledger, strong, weak rotationKey) {
	strong, weak = newP256(1), newSecp256k1(2)
	l = &ledger{}
	l.add(strong, 0, -1, update('a', strong, weak))
	l.add(weak, 1, 0, update('b', strong, weak))
	return l, strong, weak
}

// The entries of two DIDs in the public directory: one of the oldest, in the form that operations
// had then, and one with an update. Both were signed by others.
func TestPLCReadsLogsOfThePublicDirectory(t *testing.T) {
	for did, want := range map[federation.DID]string{
		"did:plc:ragtjsm2j2vknwkz3zp4oxrd": "did:key:zQ3shP5TBe1sQfSttXty15FAEHV1DZgcxRZNxvEWnPfLFwLxJ",
		"did:plc:z72i7hdynmk6r22z27h6tvur": "did:key:zQ3shXjHeiBuRCKmM36cuYnm7YEMzhGnCmCyW92sRJ9pribSF",
	} {
		t.Run(string(did), func(t *testing.T) {
			log, err := os.ReadFile(filepath.Join("testdata", "plc", strings.TrimPrefix(string(did), "did:plc:")+".json"))
			if err != nil {
				t.Fatal(err)
			}
			w := &web{pages: map[string]string{plcAddress + "/" + string(did) + "/log/audit": string(log)}}
			got, err := newDirectory(w).Resolve(t.Context(), did, noon())
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Keys) != 0 || len(got.Others) != 1 || string(identity.PublicKeyDID(got.Others[0])) != want {
				t.Errorf("got %+v, want %s alone", got, want)
			}
		})
	}
}

func TestPLCAppliesTheLastValidOperation(t *testing.T) {
	for name, test := range map[string]struct {
		build func(l *ledger, strong, weak rotationKey)
		want  byte
	}{
		"an update": {func(*ledger, rotationKey, rotationKey) {}, 'b'},
		"one undone by a stronger key within three days": {func(l *ledger, strong, weak rotationKey) {
			l.add(strong, 73, 0, update('c', strong, weak))
			l.nullify(1)
		}, 'c'},
		"three undone at once": {func(l *ledger, strong, weak rotationKey) {
			l.add(weak, 2, 1, update('c', strong, weak))
			l.add(weak, 3, 2, update('d', strong, weak))
			l.add(strong, 4, 0, update('e', strong, weak))
			l.nullify(1, 2, 3)
		}, 'e'},
		"a tombstone undone": {func(l *ledger, strong, weak rotationKey) {
			l.add(weak, 2, 1, map[string]any{"type": "plc_tombstone"})
			l.add(strong, 3, 1, update('f', strong, weak))
			l.nullify(2)
		}, 'f'},
		"an operation with members of the future": {func(l *ledger, strong, weak rotationKey) {
			operation := update('g', strong, weak)
			operation["hopes"] = []any{"peace", nil, map[string]any{"ä": "ü"}}
			l.add(weak, 2, 1, operation)
		}, 'g'},
	} {
		t.Run(name, func(t *testing.T) {
			l, strong, weak := newLedger()
			test.build(l, strong, weak)
			got, err := l.resolve(t)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Keys) != 1 || !got.Keys[0].Equal(seededKey(test.want)) {
				t.Errorf("got %+v, want key %c", got, test.want)
			}
		})
	}
}

// A directory that lies is detected, and that is no evidence about the DID.
func TestPLCRefusesInvalidLogs(t *testing.T) {
	for name, spoil := range map[string]func(l *ledger, strong, weak rotationKey){
		"an empty one":                 func(l *ledger, _, _ rotationKey) { l.entries = nil },
		"that of another DID":          func(l *ledger, _, _ rotationKey) { l.did = "did:plc:" + federation.DID(strings.Repeat("a", 24)) },
		"one without its beginning":    func(l *ledger, _, _ rotationKey) { l.entries = l.entries[1:] },
		"operations in another order":  func(l *ledger, _, _ rotationKey) { slices.Reverse(l.entries) },
		"an operation twice":           func(l *ledger, _, _ rotationKey) { l.entries = append(l.entries, l.entries[1]) },
		"a CID that is not its own":    func(l *ledger, _, _ rotationKey) { l.entries[1]["cid"] = l.entries[0]["cid"] },
		"a key slipped in":             func(l *ledger, _, _ rotationKey) { l.operation(1)["verificationMethods"] = map[string]any{} },
		"a member slipped in":          func(l *ledger, _, _ rotationKey) { l.operation(1)["x"] = "y" },
		"a number":                     func(l *ledger, _, _ rotationKey) { l.operation(1)["x"] = 1 },
		"a signature cut short":        func(l *ledger, _, _ rotationKey) { l.operation(1)["sig"] = "AAAA" },
		"a signature with a line end":  func(l *ledger, _, _ rotationKey) { l.operation(1)["sig"] = l.operation(1)["sig"].(string) + "\n" },
		"an unknown type":              func(l *ledger, _, _ rotationKey) { l.operation(1)["type"] = "plc_wish" },
		"an entry of another DID":      func(l *ledger, _, _ rotationKey) { l.entries[1]["did"] = "did:plc:x" },
		"a time that is none":          func(l *ledger, _, _ rotationKey) { l.entries[1]["createdAt"] = "later" },
		"an operation before the last": func(l *ledger, _, _ rotationKey) { l.entries[1]["createdAt"] = "2020-01-01T00:00:00.000Z" },
		"an update that is hidden":     func(l *ledger, _, _ rotationKey) { l.entries[1]["nullified"] = true },
		"an undone one that is shown": func(l *ledger, strong, weak rotationKey) {
			l.add(strong, 2, 0, update('c', strong, weak))
		},
		"a first operation with another key": func(l *ledger, strong, _ rotationKey) {
			*l = ledger{}
			l.add(newP256(9), 0, -1, update('z', strong))
		},
		"an update with another key": func(l *ledger, _, _ rotationKey) {
			l.add(newP256(9), 2, 1, update('z', newP256(9)))
		},
		"an update by a key that was rotated out": func(l *ledger, strong, weak rotationKey) {
			l.add(weak, 2, 1, update('c', weak))
			l.add(strong, 3, 2, update('z', strong))
		},
		"one undone too late": func(l *ledger, strong, weak rotationKey) {
			l.add(strong, 74, 0, update('c', strong, weak))
			l.nullify(1)
		},
		"one undone by a key that is no stronger": func(l *ledger, strong, weak rotationKey) {
			l.add(weak, 2, 0, update('c', strong, weak))
			l.nullify(1)
		},
		"an update after the end": func(l *ledger, strong, weak rotationKey) {
			l.add(weak, 2, 1, map[string]any{"type": "plc_tombstone"})
			l.add(weak, 3, 2, update('c', strong, weak))
		},
		"an update of what was undone": func(l *ledger, strong, weak rotationKey) {
			l.add(strong, 2, 0, update('c', strong, weak))
			l.nullify(1)
			l.add(weak, 3, 1, update('z', strong, weak))
		},
		"the other of two signatures, with a curve of the one kind": func(l *ledger, strong, weak rotationKey) {
			*l = ledger{}
			l.add(mirrored(strong, elliptic.P256().Params().N), 0, -1, update('a', strong, weak))
		},
		"and of the other": func(l *ledger, strong, weak rotationKey) {
			*l = ledger{}
			l.add(mirrored(weak, secp256k1.Params().N), 0, -1, update('a', weak, strong))
		},
		"too many rotation keys": func(l *ledger, strong, weak rotationKey) {
			l.add(weak, 2, 1, update('c', slices.Repeat([]rotationKey{weak}, 11)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, strong, weak := newLedger()
			spoil(l, strong, weak)
			document, err := l.resolve(t)
			if _, later := errors.AsType[*federation.UnavailableError](err); !later {
				t.Errorf("got %+v, %v, want unavailable", document, err)
			}
		})
	}
}

// operation is that of entry n, to be spoilt.
func (l *ledger) operation(n int) map[string]any {
	return l.entries[n]["operation"].(map[string]any)
}

// mirrored signs with the other of the two values of s that verify.
func mirrored(key rotationKey, order *big.Int) rotationKey {
	low := key.sign
	key.sign = func(digest [32]byte) []byte {
		signature := low(digest)
		s := new(big.Int).SetBytes(signature[32:])
		return append(signature[:32:32], s.Sub(order, s).FillBytes(make([]byte, 32))...)
	}
	return key
}

func TestPLCWithoutDocument(t *testing.T) {
	l, _, weak := newLedger()
	l.add(weak, 2, 1, map[string]any{"type": "plc_tombstone"})
	w := &web{pages: map[string]string{l.address(): l.page()}}
	for name, did := range map[string]federation.DID{
		"one that was given up":         l.did,
		"one without a first operation": "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa",
		"one that is too short":         "did:plc:aaaaaaaaaaaaaaaaaaaaaaa",
		"one that is too long":          "did:plc:aaaaaaaaaaaaaaaaaaaaaaaaa",
		"one in capitals":               "did:plc:AAAAAAAAAAAAAAAAAAAAAAAA",
		"one with a digit too big":      "did:plc:aaaaaaaaaaaaaaaaaaaaaaa8",
		"one with a path":               "did:plc:aaaaaaaaaaaaaaaaaaaaa%2F",
	} {
		t.Run(name, func(t *testing.T) {
			document, err := newDirectory(w).Resolve(t.Context(), did, noon())
			if _, later := errors.AsType[*federation.UnavailableError](err); err == nil || later {
				t.Errorf("got %+v, %v, want an error for good", document, err)
			}
		})
	}
}

func TestPLCWithoutDirectoryIsUnavailable(t *testing.T) {
	directory := identity.NewDirectory(identity.DirectoryConfig{}, &web{})
	_, err := directory.Resolve(t.Context(), "did:plc:z72i7hdynmk6r22z27h6tvur", noon())
	if _, later := errors.AsType[*federation.UnavailableError](err); !later {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestPLCReadsKeysOfEachKind(t *testing.T) {
	l, strong, weak := newLedger()
	operation := update('c', strong)
	operation["verificationMethods"] = map[string]any{
		"step": string(identity.KeyDID(seededKey('c'))), "p": strong.did(), "k": weak.did(), "again": weak.did(),
		"x25519": "did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc",
	}
	l.add(weak, 2, 1, operation)
	got, err := l.resolve(t)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Keys) != 1 || !got.Keys[0].Equal(seededKey('c')) {
		t.Errorf("keys that sign steps: %x", got.Keys)
	}
	if diff := cmp.Diff([]federation.PublicKey{weak.public, strong.public}, got.Others); diff != "" {
		t.Error(diff)
	}
}

func FuzzPLCLog(f *testing.F) {
	l, strong, weak := newLedger()
	f.Add(l.page())
	l.add(strong, 3, 0, update('c', strong, weak))
	l.nullify(1)
	f.Add(l.page())
	f.Fuzz(func(t *testing.T, page string) {
		w := &web{pages: map[string]string{l.address(): page}}
		document, err := newDirectory(w).Resolve(t.Context(), l.did, noon())
		if err == nil && len(document.Keys) != 1 {
			t.Errorf("%s: got %+v: no key signed that", page, document)
		}
	})
}
