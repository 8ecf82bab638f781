package federation_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestMaskCapabilitiesHidesThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"request answered":                 "request answered",
		"/blob/cap/AbC-_0123456789xyzABCD": "/blob/cap/…",
		`Get "https://a.example/blob/cap/AbC-_0123456789xyzABCD": timeout, https://b.example/blob/cap/x/y`: `Get "https://a.example/blob/cap/…": timeout, https://b.example/blob/cap/…/y`,
		"fetch https://a.example/evidence/0af1?k=AbC_-9: status 500":                                       "fetch https://a.example/evidence/0af1?k=…: status 500",
		"/blob/cap/%41bC": "/blob/cap/…",
	} {
		if got := federation.MaskCapabilities(text); got != want {
			t.Errorf("%q is masked as %q, want %q", text, got, want)
		}
	}
}
