package signing_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

//go:generate go test -run ^TestSchemesReproduceTheirVectors$ -update .

// update is set by go generate: the vectors are made anew, from fixed seeds, by code
// that shares nothing with the package under test.
var update = flag.Bool("update", false, "write the vectors anew")

type schemeVector struct {
	Scheme    string `json:"scheme"`
	Name      string `json:"name"`
	Seed      string `json:"seed"`
	Message   string `json:"message"`  // as it might arrive
	Document  string `json:"document"` // in base64 if it is no text
	KeyID     string `json:"kid,omitempty"`
	Signature string `json:"signature"`
}

func schemes() []signing.Scheme {
	return []signing.Scheme{
		signing.HandoffStep(), signing.ActStep(), signing.Receipt(), signing.Passport(),
		signing.Message(), signing.Relay(), signing.Challenge(), signing.DecodedChallenge(),
		signing.Rotation(), signing.BareRotation(), signing.Revocation(),
		signing.BoundRegistration(), signing.BoundRotation(), signing.BoundRevocation(),
		signing.LegacyMessage(), signing.LegacyTextless(), signing.LegacyFive(), signing.LegacyHeader(), signing.LegacyASCIIHeader(),
	}
}

func schemeNamed(tb testing.TB, name string) signing.Scheme {
	tb.Helper()
	i := slices.IndexFunc(schemes(), func(s signing.Scheme) bool { return s.Name == name })
	if i < 0 {
		tb.Fatalf("there is no scheme %s", name)
	}
	return schemes()[i]
}

func TestSchemesReproduceTheirVectors(t *testing.T) {
	file := filepath.Join("testdata", "schemes.json")
	if *update {
		text, err := json.MarshalIndent(makeVectors(t), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, v := range readJSON[[]schemeVector](t, file) {
		seen[v.Scheme] = true
		t.Run(v.Scheme+"/"+v.Name, func(t *testing.T) { checkScheme(t, v) })
	}
	for _, s := range schemes() {
		if !seen[s.Name] {
			t.Errorf("%s has no vector", s.Name)
		}
	}
}

func checkScheme(t *testing.T, v schemeVector) {
	t.Helper()
	scheme := schemeNamed(t, v.Scheme)
	key := keyOf(mustHex(t, v.Seed))
	signature, document, err := scheme.Sign(t.Context(), key, []byte(v.Message))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v.Document, printable(document)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if signature != v.Signature {
		t.Errorf("signature %s, want %s", signature, v.Signature)
	}
	if scheme.KeyID != nil && scheme.KeyID(key.Public) != v.KeyID {
		t.Errorf("key id %s, want %s", scheme.KeyID(key.Public), v.KeyID)
	}
	if verdict, err := scheme.Verify([]byte(v.Message), v.Signature, key.Public); verdict != federation.Valid || err != nil {
		t.Errorf("verdict %v, %v; want valid", verdict, err)
	}
	checkChanges(t, scheme, v)
}

// checkChanges wants one changed bit of the signature, of the message and of the key
// to be found.
func checkChanges(t *testing.T, scheme signing.Scheme, v schemeVector) {
	t.Helper()
	key := keyOf(mustHex(t, v.Seed))
	other := keyOf(mustHex(t, strings.Repeat("99", 32)))
	broken := []byte(v.Signature)
	if at := len(broken) - 10; broken[at] == 'A' {
		broken[at] = 'B'
	} else {
		broken[at] = 'A'
	}
	if verdict, _ := scheme.Verify([]byte(v.Message), string(broken), key.Public); verdict != federation.Invalid {
		t.Errorf("another signature is %v, want invalid", verdict)
	}
	changed := strings.Replace(v.Message, "bob", "bod", 1)
	if changed == v.Message {
		t.Fatal("the message names no bob to change")
	}
	if verdict, _ := scheme.Verify([]byte(changed), v.Signature, key.Public); verdict == federation.Valid {
		t.Error("another message is valid")
	}
	want := federation.Invalid
	if strings.Contains(v.Signature, v.KeyID+":") && v.KeyID != "" { // it says that it is of another key
		want = federation.Unverifiable
	}
	if verdict, _ := scheme.Verify([]byte(v.Message), v.Signature, other.Public); verdict != want {
		t.Errorf("under another key it is %v, want %v", verdict, want)
	}
}

func printable(document []byte) string {
	for _, c := range document {
		if c < ' ' || c > '~' {
			if json.Valid(document) {
				return string(document)
			}
			return base64.StdEncoding.EncodeToString(document)
		}
	}
	return string(document)
}

func TestSchemesHaveDistinctNames(t *testing.T) {
	names := map[string]bool{}
	for _, s := range schemes() {
		if names[s.Name] {
			t.Errorf("two schemes are named %s", s.Name)
		}
		names[s.Name] = true
	}
}

// A text with two meanings, or other than a message of the scheme, has no signature.
func TestVerifyIsUnverifiableWithoutDocument(t *testing.T) {
	key := keyOf(make([]byte, 32))
	for name, c := range map[string]struct {
		scheme  signing.Scheme
		message string
	}{
		"a member twice":             {signing.Message(), `{"a":1,"a":2}`},
		"a number beyond a double":   {signing.Message(), `{"a":1e400}`},
		"half a character":           {signing.Message(), `{"a":"\ud83d"}`},
		"half a character as a name": {signing.Message(), `{"\udc00":1}`},
		"halves in the wrong order":  {signing.Message(), `{"a":"\ude00\ud83d"}`},
		"two values":                 {signing.LegacyHeader(), `{} {}`},
		"null":                       {signing.Message(), `null`},
		"a list":                     {signing.Message(), `[]`},
		"a step with a number":       {signing.HandoffStep(), `{"from":"did:example:a","target":"#a","handoff-id":1}`},
		"a step with null":           {signing.HandoffStep(), `{"from":"did:example:a","target":"#a","handoff-id":null}`},
		"a step without target":      {signing.HandoffStep(), `{"from":"did:example:a","handoff-id":"x"}`},
		"a step without handoff":     {signing.HandoffStep(), `{"from":"did:example:a","target":"#a"}`},
		"a step with tags of both":   {signing.HandoffStep(), `{"from":"did:example:a","target":"#a","handoff-id":"x","act":"handoff"}`},
		"an act step without id":     {signing.ActStep(), `{"from":"did:example:a","target":"#a","act":"handoff"}`},
		"a receipt that accepts":     {signing.Receipt(), `{"from":"did:web:a.example","target":"#a","id":"x","act":"handoff","act-verb":"accept","act-subject":"y"}`},
		"a receipt of nothing":       {signing.Receipt(), `{"from":"did:web:a.example","target":"#a","id":"x","act":"handoff","act-verb":"confirm"}`},
		"a receipt without id":       {signing.Receipt(), `{"from":"did:web:a.example","target":"#a","handoff":"confirm","handoff-id":"x","handoff-subject":"y"}`},
		"a text unlike its body":     {signing.LegacyTextless(), `{"body":"a","text":"b"}`},
		"four members of five":       {signing.LegacyFive(), `{"from":"a","to":"b","text":"c","timestamp":1}`},
		"a rotation without a key":   {signing.BareRotation(), `{"newKid":"k"}`},
		"an empty challenge":         {signing.Challenge(), ``},
		"a challenge without base64": {signing.DecodedChallenge(), `!`},
	} {
		t.Run(name, func(t *testing.T) {
			if verdict, err := c.scheme.Verify([]byte(c.message), "ed25519:k:s", key.Public); verdict != federation.Unverifiable || err == nil {
				t.Errorf("verdict %v, %v; want unverifiable and why", verdict, err)
			}
			if _, _, err := c.scheme.Sign(t.Context(), key, []byte(c.message)); err == nil {
				t.Error("it was signed")
			}
		})
	}
}

func TestVerifyIsUnverifiableForOtherAlgorithms(t *testing.T) {
	key := keyOf(make([]byte, 32))
	for _, signature := range []string{"ml-dsa-87:a:b", "", "AAAA"} {
		if verdict, err := signing.Relay().Verify([]byte(`{}`), signature, key.Public); verdict != federation.Unverifiable || err != nil {
			t.Errorf("%q is %v (%v), want unverifiable", signature, verdict, err)
		}
	}
}

func TestMatchFindsTheSchemeOfALegacyMessage(t *testing.T) {
	legacy := []signing.Scheme{signing.LegacyMessage(), signing.LegacyTextless(), signing.LegacyFive()}
	key := keyOf(make([]byte, 32))
	const message = `{"from":"a","to":"bob","text":"hi","body":"hi","timestamp":1,"nonce":"n","v":"0.1"}`
	for _, s := range legacy {
		signature, _, err := s.Sign(t.Context(), key, []byte(message))
		if err != nil {
			t.Fatal(err)
		}
		if found, verdict := signing.Match([]byte(message), signature, key.Public, legacy...); found.Name != s.Name || verdict != federation.Valid {
			t.Errorf("%q is %v, want %q", found.Name, verdict, s.Name)
		}
		found, verdict := signing.Match([]byte(strings.Replace(message, "bob", "eve", 1)), signature, key.Public, legacy...)
		if found.Name != "" || verdict != federation.Invalid {
			t.Errorf("a changed message is %q %v, want invalid", found.Name, verdict)
		}
	}
	if _, verdict := signing.Match([]byte(`[]`), "x", key.Public, legacy...); verdict != federation.Unverifiable {
		t.Errorf("what no scheme fits is %v, want unverifiable", verdict)
	}
}

func TestMatchExplainsAMismatch(t *testing.T) {
	key := keyOf(make([]byte, 32))
	away := errors.New("away")
	key.Sign = func(context.Context, []byte) ([]byte, error) { return nil, away }
	if _, _, err := signing.Message().Sign(t.Context(), key, []byte(`{}`)); !errors.Is(err, away) {
		t.Errorf("got %v, want %v", err, away)
	}
}

// spec: RFC 8785 §3.2.2.3
func TestJCSWritesLargeNumbersAsECMAScript(t *testing.T) {
	for in, want := range map[string]string{
		`9007199254740993`: `9007199254740992`, `-9007199254740995`: `-9007199254740996`, `18446744073709551615`: `18446744073709552000`,
		`1e20`: `100000000000000000000`, `1E21`: `1e+21`, `1.7976931348623157e308`: `1.7976931348623157e+308`, `4.9e-324`: `5e-324`,
		`333333333.33333329`: `333333333.3333333`, `123456789012345678901234567890`: `1.2345678901234568e+29`,
	} {
		got, err := signing.Envelope([]byte(`{"n":` + in + `,"signature":"x"}`))
		if err != nil || string(got) != `{"n":`+want+`}` {
			t.Errorf("%s is signed as %s (%v), want %s", in, got, err, want)
		}
	}
}
