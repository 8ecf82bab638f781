package signing_test

import (
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// sameToAnother wants the canonicaliser of another author to agree on a document.
func sameToAnother(t *testing.T, document []byte) {
	t.Helper()
	if again, err := jcs.Transform(document); err != nil || string(again) != string(document) {
		t.Errorf("%s is %s to another canonicaliser (%v)", document, again, err)
	}
}

// The two canonicalisers must agree on every JSON text that this package takes, and
// that in one step: the canonical form is its own canonical form.
func FuzzJCS(f *testing.F) {
	for _, seed := range []string{
		`{"v":"0.1","n":[1,-0,1.5e3,"é\u2028"]}`, `{"😀":1,"\ue000":2,"a":{"b":{}}}`, `"\ud83d\ude00"`, `"\ud83d"`, `"\\ud83d"`,
		`1e-7`, `0.000001`, `4.9e-324`, `1.7976931348623157e308`, `9007199254740992`, `9007199254740993`, `[null,true,""]`, ` {"a" : 1} `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := signing.JCS(text)
		if err != nil {
			return
		}
		if other, err := jcs.Transform(text); err != nil || string(other) != string(got) {
			t.Errorf("%s is %s here and %s there (%v)", text, got, other, err)
		}
		if again, err := signing.JCS(got); err != nil || string(again) != string(got) {
			t.Errorf("%s is %s the second time (%v)", got, again, err)
		}
	})
}

// A document that a scheme of JSON accepts is canonical, and a scheme verifies its own
// signatures.
func FuzzSchemes(f *testing.F) {
	for _, v := range readJSON[[]schemeVector](f, "testdata/schemes.json") {
		f.Add([]byte(v.Message), v.Signature)
	}
	key := keyOf(make([]byte, 32))
	bytesAlone := map[string]bool{"airc-challenge": true, "airc-challenge-bytes": true, "airc-rotate-key": true, "airc-header-ascii": true}
	f.Fuzz(func(t *testing.T, message []byte, signature string) {
		for _, s := range schemes() {
			document, err := s.Document(message)
			if err != nil {
				continue
			}
			if !bytesAlone[s.Name] {
				sameToAnother(t, document)
			}
			if verdict, _ := s.Verify(message, signature, key.Public); verdict == federation.Valid {
				t.Errorf("%s: a signature that was never made is valid: %s", s.Name, signature)
			}
			signed, _, err := s.Sign(t.Context(), key, message)
			if err != nil {
				t.Errorf("%s: %s cannot be signed: %v", s.Name, message, err)
			}
			if verdict, err := s.Verify(message, signed, key.Public); verdict != federation.Valid {
				t.Errorf("%s: its own signature is %v (%v)", s.Name, verdict, err)
			}
		}
	})
}

// A signature tag has one meaning or none: a tag in the written form is written again unchanged.
func FuzzSignatureTag(f *testing.F) {
	for _, seed := range []string{
		"ed25519:kid:AAAA", "ed25519:AAAA", "ed25519::AAAA", "ml-dsa-87:k:AA", "ed25519:k:AB", "ed25519:k:A\nA", "AA==", "ed25519:", ":", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range schemes() {
			kid, sig, ours := s.Encoding.Read(text)
			if !ours || sig == nil || strings.HasPrefix(s.Name, "airc-legacy") || strings.HasPrefix(s.Name, "airc-header") {
				continue
			}
			if again := s.Encoding.Write(kid, sig); again != text {
				t.Errorf("%s: %q is also %q", s.Name, text, again)
			}
		}
		ev := offer()
		ev.Signature.Text = text
		keys := staticKeys{"did:example:a": keyOf(make([]byte, 32)).Public}
		if _, verdict, err := signing.Verify(t.Context(), keys, ev); verdict == federation.Valid || err == nil {
			t.Errorf("%q is a valid signature", text)
		}
	})
}
