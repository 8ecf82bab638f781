package main_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// Text of a stranger reaches the log for people as an attribute.
func TestLogTextHasNoControlCharacters(t *testing.T) {
	h := newHouse(t)
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`format = "json"`), []byte(`format = "text"`), 1)
	if err := os.WriteFile(h.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h.start(t)
	h.asksAdmin(t, "/x%1B%5B31m%E2%80%A8%E2%80%8B%F3%A0%81%A9", "evil.example", "")
	said := strings.ReplaceAll(h.told(t), "\n", "")
	if !strings.Contains(said, "foreign Host") || said != federation.PlainText(said) {
		t.Errorf("the log has %q", said)
	}
	h.stop(t)
}
