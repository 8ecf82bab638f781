package signing_test

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// The schemes give the answers of Project Wycheproof, whose Go module carries its vectors.
func TestVerifyMatchesWycheproof(t *testing.T) {
	text, err := fs.ReadFile(wycheproof.TestVectors, "ed25519_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		NumberOfTests int
		TestGroups    []struct {
			PublicKey struct{ PK string }
			Tests     []struct {
				TCID                      int
				Comment, Msg, Sig, Result string
			}
		}
	}
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, group := range set.TestGroups {
		key, err := federation.ParsePublicKey(mustHex(t, group.PublicKey.PK))
		if err != nil {
			t.Errorf("key %s: %v", group.PublicKey.PK, err)
			continue
		}
		for _, c := range group.Tests {
			judged++
			want := federation.Invalid
			if c.Result == "valid" {
				want = federation.Valid
			}
			if got := verdictOf(t, mustHex(t, c.Msg), mustHex(t, c.Sig), key); got != want {
				t.Errorf("case %d (%s): verdict %v, want %v", c.TCID, c.Comment, got, want)
			}
		}
	}
	if judged != set.NumberOfTests || judged < 100 {
		t.Errorf("%d cases judged, the file has %d", judged, set.NumberOfTests)
	}
}

// verdictOf judges a signature of bytes that need not be JSON.
func verdictOf(t *testing.T, message, sig, key []byte) federation.Verdict {
	t.Helper()
	scheme := signing.Challenge()
	scheme.Document = func(message []byte) ([]byte, error) { return message, nil } // also an empty one
	verdict, err := scheme.Verify(message, base64.RawURLEncoding.EncodeToString(sig), key)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}
