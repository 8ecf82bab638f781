package main_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tokenKey reads the secret that the gateway makes tokens with.
func (h *house) tokenKey(t *testing.T) []byte {
	t.Helper()
	digits, err := os.ReadFile(filepath.Join(h.dir, "data", "keys", "token"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(digits)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// forge returns a token of the gateway with other claims, signed as the gateway does.
func (h *house) forge(t *testing.T, token string, changes map[string]any) string {
	t.Helper()
	return forgeToken(t, token, h.tokenKey(t), changes)
}

// forgeToken returns a token with other claims, signed with a key.
func forgeToken(t *testing.T, token string, key []byte, changes map[string]any) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no JWT", token)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	maps.Copy(claims, changes)
	if text, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	head := parts[0] + "." + base64.RawURLEncoding.EncodeToString(text)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(head))
	return head + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
