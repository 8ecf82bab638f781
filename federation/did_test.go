package federation_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestParseDIDRefusesOtherSpellings(t *testing.T) {
	for spelling, other := range map[string]string{
		"did:web:%61lice.example":       "a letter escaped",
		"did:web:alice%2Eexample":       "a dot escaped",
		"did:web:alice.example:%7Eamy":  "",
		"did:web:alice.example%3a8443":  "an escape in lower case",
		"did:web:Alice.example":         "a host in capitals",
		"did:WEB:alice.example":         "a method in capitals",
		"did:web:alice.example%3A8443":  "",
		"did:key:z6Mk%31":               "a digit escaped",
		"did:web:alice.example:a%20b":   "",
		"did:web:alice.example:%5Famy":  "a line escaped",
		"did:web:alice.example:a%2D%2D": "two strokes escaped",
	} {
		_, err := federation.ParseDID(spelling)
		if got := errors.Is(err, federation.ErrNotCanonical); got != (other != "") {
			t.Errorf("%s (%s): %v", spelling, other, err)
		}
	}
}

func FuzzParseDID(f *testing.F) {
	f.Add("did:plc:z72i7hdynmk6r22z27h6tvur")
	f.Add("did:web:alice.example%3A8443:users:a%20b")
	f.Add("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
	f.Add("did:web:%61lice.example")
	f.Fuzz(func(t *testing.T, s string) {
		did, err := federation.ParseDID(s)
		if err != nil {
			if did != "" {
				t.Errorf("%q: both %q and an error", s, did)
			}
			return
		}
		switch {
		case string(did) != s, len(s) > federation.MaxDIDBytes, did.Method() == "":
			t.Errorf("%q was read as %q, of method %q", s, did, did.Method())
		case strings.ContainsAny(s, " \r\n\t/?#,\\@"):
			t.Errorf("%q has a character that means something elsewhere", s)
		}
	})
}

func TestEscapeDIDMakesAPartOfADID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ada-1.b_C":  "ada-1.b_C",
		"a:b/c d":    "a%3Ab%2Fc%20d",
		"%41":        "%2541",
		"\u00e9\x00": "%C3%A9%00",
	} {
		if got := federation.EscapeDID(text); got != want {
			t.Errorf("EscapeDID(%q) = %s, want %s", text, got, want)
		}
		did := "did:web:gw.example:dir:" + want
		if _, err := federation.ParseDID(did); err != nil {
			t.Errorf("ParseDID(%s): %v", did, err)
		}
	}
}
