package identity_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mr-tron/base58"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

const alice = federation.DID("did:web:alice.example")

func multikey(key ed25519.PublicKey) string {
	return strings.TrimPrefix(string(identity.KeyDID(key)), "did:key:")
}

func document(members string) string {
	return `{"@context": ["https://www.w3.org/ns/did/v1"], "id": "did:web:alice.example"` + members + `}`
}

func TestParseDocumentReadsKeys(t *testing.T) {
	a, b, c := seededKey('a'), seededKey('b'), seededKey('c')
	first := `{"id": "#a", "type": "Multikey", "controller": "did:web:alice.example", "publicKeyMultibase": "` + multikey(a) + `"}`
	second := `{"id": "did:web:alice.example#b", "type": "Ed25519VerificationKey2020", "publicKeyMultibase": "` + multikey(b) + `"}`
	third := `{"id": "#c", "type": "JsonWebKey2020", "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": "` +
		base64.RawURLEncoding.EncodeToString(c) + `"}}`
	all := `, "verificationMethod": [` + first + `, ` + second + `, ` + third + `]`
	for name, test := range map[string]struct {
		body string
		want []ed25519.PublicKey
	}{
		"no keys at all":                      {document(""), nil},
		"each type of key":                    {document(all), []ed25519.PublicKey{a, b, c}},
		"only keys for assertion":             {document(all + `, "assertionMethod": ["#b"]`), []ed25519.PublicKey{b}},
		"keys for assertion and login, once":  {document(all + `, "assertionMethod": ["did:web:alice.example#a"], "authentication": ["#a", "#c"]`), []ed25519.PublicKey{a, c}},
		"a key written where it is listed":    {document(`, "authentication": [` + second + `]`), []ed25519.PublicKey{b}},
		"keys for other purposes":             {document(all + `, "assertionMethod": [], "keyAgreement": ["#a"]`), nil},
		"a reference to another's key":        {document(all + `, "assertionMethod": ["did:web:bob.example#a"]`), nil},
		"a key that another controls":         {document(`, "verificationMethod": [` + strings.Replace(first, `"did:web:alice`, `"did:web:bob`, 1) + `]`), nil},
		"a key of another kind":               {document(`, "verificationMethod": [{"id": "#s", "type": "Multikey", "publicKeyMultibase": "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"}, ` + first + `]`), []ed25519.PublicKey{a}},
		"a key on another curve":              {document(`, "verificationMethod": [{"id": "#s", "type": "JsonWebKey2020", "publicKeyJwk": {"kty": "EC", "crv": "P-256", "x": "", "y": ""}}]`), nil},
		"an unknown type":                     {document(`, "verificationMethod": [{"id": "#s", "type": "Signer9"}]`), nil},
		"members that look like the real one": {document(`, "VerificationMethod": [` + first + `]`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := identity.ParseDocument(alice, []byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseDocumentRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":                 "",
		"a page":                  "<!doctype html>",
		"a list":                  "[]",
		"null":                    "null",
		"no id":                   "{}",
		"the document of another": strings.Replace(document(""), "alice", "bob", 1),
		"an id in another case":   `{"ID": "did:web:alice.example"}`,
		"two ids":                 document(`, "id": "did:web:alice.example"`),
		"two names further in":    document(`, "service": [{"a": 1, "a": 2}]`),
		"two documents":           document("") + document(""),
		"half a document":         document("")[:20],
		"no end of nesting":       document(`, "x": ` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)),
	} {
		t.Run(name, func(t *testing.T) {
			if keys, err := identity.ParseDocument(alice, []byte(body)); err == nil {
				t.Errorf("got keys %x, want an error", keys)
			}
		})
	}
}

func TestParseDocumentReadsShapesInUse(t *testing.T) {
	a := seededKey('a')
	good := `{"id": "#a", "type": "Multikey", "publicKeyMultibase": "` + multikey(a) + `"}`
	raw := base64.RawURLEncoding.EncodeToString
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := signer.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	x, y := point[1:33], point[33:]
	p256 := federation.PublicKey{Kind: federation.P256, Bytes: append([]byte{2 | y[31]&1}, x...)}
	var many []string
	var keys []ed25519.PublicKey
	for i := range 66 {
		key := seededKey(byte(1 + i))
		many = append(many, `{"id": "#`+strconv.Itoa(i)+`", "type": "Multikey", "publicKeyMultibase": "`+multikey(key)+`"}`)
		keys = append(keys, key)
	}
	methods := func(list ...string) string { return `, "verificationMethod": [` + strings.Join(list, ", ") + `]` }
	for name, tt := range map[string]struct {
		body    string
		want    []ed25519.PublicKey
		others  []federation.PublicKey
		skipped []federation.SkippedKey
	}{
		"a byte order mark":    {body: "\xef\xbb\xbf" + document(methods(good)), want: []ed25519.PublicKey{a}},
		"one purpose, no list": {body: document(methods(good) + `, "authentication": "#a"`), want: []ed25519.PublicKey{a}},
		"one method, no list":  {body: document(`, "authentication": ` + good), want: []ed25519.PublicKey{a}},
		"17 keys":              {body: document(methods(many[:17]...)), want: keys[:17]},
		"a key of 2018": {
			body: document(methods(`{"id": "#a", "type": "Ed25519VerificationKey2018", "publicKeyBase58": "` + base58.Encode(a) + `"}`)),
			want: []ed25519.PublicKey{a},
		},
		"P-256 as a web key": {
			body:   document(methods(`{"id": "#p", "type": "JsonWebKey2020", "publicKeyJwk": {"kty": "EC", "crv": "P-256", "x": "` + raw(x) + `", "y": "` + raw(y) + `"}}`)),
			others: []federation.PublicKey{p256},
		},
		"another point": {
			body:    document(methods(`{"id": "#p", "type": "JsonWebKey2020", "publicKeyJwk": {"kty": "EC", "crv": "P-256", "x": "` + raw(x) + `", "y": "` + raw(x) + `"}}`)),
			skipped: []federation.SkippedKey{{ID: "did:web:alice.example#p", Reason: "publicKeyJwk: the point is not on p256"}},
		},
		"unreadable methods beside a good one": {
			body: document(methods(`{"id": "#u", "type": "Multikey", "publicKeyMultibase": "u7QEd"}`, `{"id": "#r", "type": "RsaKey\n2018"}`,
				`{"id": "#c", "type": "Multikey", "controller": "did:web:bob.example", "publicKeyMultibase": "`+multikey(a)+`"}`, `7`,
				`{"id": "#x", "type": "JsonWebKey", "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}}`, good)),
			want: []ed25519.PublicKey{a},
			skipped: []federation.SkippedKey{
				{ID: "did:web:alice.example#u", Reason: "want a key in base58btc, which starts with z"},
				{ID: "did:web:alice.example#r", Reason: `a key of another kind: type "RsaKey 2018"`},
				{ID: "did:web:alice.example#c", Reason: "another DID controls it"},
				{Reason: "want an object or an id"},
				{ID: "did:web:alice.example#x", Reason: "publicKeyJwk: federation: not a canonical Ed25519 public key: 3 bytes, want 32"},
			},
		},
		"too many keys": {
			body: document(methods(many...)), want: keys[:64],
			skipped: []federation.SkippedKey{{ID: "did:web:alice.example#64", Reason: "more than 64 keys"}, {ID: "did:web:alice.example#65", Reason: "more than 64 keys"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := identity.ParseWholeDocument(alice, []byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			want := federation.Document{DID: alice, Keys: tt.want, Others: tt.others, Skipped: tt.skipped}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseDocument(f *testing.F) {
	f.Add(document(`, "verificationMethod": [{"id": "#a", "type": "Multikey", "publicKeyMultibase": "` + multikey(seededKey('a')) + `"}], "authentication": ["#a"]`))
	f.Add(document(`, "assertionMethod": [{"type": "JsonWebKey", "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}}]`))
	f.Add(`[[[[[[{"a": {"a": 1, "b": 2}}]]]]]]`)
	f.Fuzz(func(t *testing.T, body string) {
		keys, err := identity.ParseDocument(alice, []byte(body))
		if err != nil && keys != nil {
			t.Errorf("%q: both keys and an error", body)
		}
		for _, key := range keys {
			if len(key) != ed25519.PublicKeySize {
				t.Errorf("%q: a key of %d bytes", body, len(key))
			}
		}
	})
}
