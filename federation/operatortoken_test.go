package federation_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestScopeCoversLesserScopes(t *testing.T) {
	scopes := []federation.Scope{federation.ReadScope, federation.OperateScope, federation.AdminScope}
	for has, scope := range scopes {
		for needs, needed := range scopes {
			if got := scope.Covers(needed); got != (has >= needs) {
				t.Errorf("%s covers %s: %v", scope, needed, got)
			}
		}
		for _, none := range []federation.Scope{"", "root"} {
			if scope.Covers(none) || none.Covers(scope) {
				t.Errorf("%s and %q cover each other", scope, none)
			}
		}
		if parsed, err := federation.ParseScope(string(scope)); parsed != scope || err != nil {
			t.Errorf("ParseScope(%q) = %q, %v", scope, parsed, err)
		}
	}
	for _, text := range []string{"", "Read", "root", "read,admin"} {
		if _, err := federation.ParseScope(text); !errors.Is(err, federation.ErrInvalidScope) {
			t.Errorf("ParseScope(%q): %v", text, err)
		}
	}
}

func TestOperatorTokenIsKeptAsDigest(t *testing.T) {
	text, kept, err := federation.NewOperatorToken(bytes.NewReader(bytes.Repeat([]byte{0xfb}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if want := "baton_op_" + strings.Repeat("-_v7", 10) + "-_s"; text != want {
		t.Errorf("the token is %s, want %s", text, want)
	}
	if kept != (federation.OperatorToken{Digest: federation.DigestToken(text)}) {
		t.Errorf("kept is %+v", kept)
	}
	if _, _, err := federation.NewOperatorToken(strings.NewReader("too little")); err == nil {
		t.Error("a token was made of ten bytes")
	}
}

func TestOperatorTokenNameIsReadable(t *testing.T) {
	for text, want := range map[string]bool{
		"ann": true, "ann@laptop.example": true, "7": true, "a_b-c": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "..": false, "-x": false, "a b": false, "a/b": false, "a\n": false, "añn": false,
	} {
		if got := federation.ValidTokenName(text); got != want {
			t.Errorf("ValidTokenName(%q) = %v", text, got)
		}
	}
}
