package airc_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// The registry notes the scheme of each request. The token, and no scheme, identifies the
// sender.
func TestSigningSchemeIsRecorded(t *testing.T) {
	t.Parallel()
	key, public := newKey(0x21)
	sign := func(document string) string {
		return base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(document)))
	}
	text := func(members map[string]any) string {
		all, err := json.Marshal(members) // sorted and without spaces, as canonical JSON is
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
	plain := map[string]any{"to": "scout_7", "body": "Größe", "text": "Größe", "nonce": "00", "from": "scout_7", "timestamp": 7}
	inBody := func(signature string) map[string]any {
		body := maps.Clone(plain)
		body["signature"] = signature
		return body
	}
	without := func(names ...string) string {
		rest := maps.Clone(plain)
		for _, name := range names {
			delete(rest, name)
		}
		return text(rest)
	}
	escaped := strings.NewReplacer("ö", `\u00f6`, "ß", `\u00df`).Replace(text(plain))
	for name, test := range map[string]struct {
		body   map[string]any
		header string
		want   string
	}{
		"not at all":                           {plain, "", "none"},
		"in the body, over all of it":          {inBody(sign(text(plain))), "", "d2"},
		"likewise, with a prefix":              {inBody("ed25519:" + sign(text(plain))), "", "d2"},
		"in the body, before the text came in": {inBody(sign(without("text"))), "", "legacy"},
		"in the body, over five members":       {inBody(sign(without("body"))), "", "legacy"},
		"in a header":                          {plain, sign(text(plain)), "header"},
		"in a header, with a prefix":           {plain, "ed25519:" + sign(text(plain)), "header"},
		"in a header, as Python writes JSON":   {plain, sign(escaped), "header"},
		"with another key or other bytes":      {inBody(sign("{}")), sign("{}"), "bad"},
		"with no signature that can be read":   {inBody("!"), "", "bad"},
	} {
		w := newWorld(t)
		scout := w.newcomer(t, "scout_7", map[string]any{"publicKey": public})
		status, answer := scout.call(t, http.MethodPost, "/api/messages", test.body, "X-AIRC-Signature", test.header)
		if status != http.StatusCreated {
			t.Fatal(name, status, answer)
		}
		stored, _, err := w.record.Inbox(t.Context(), "scout_7", "", 1)
		if err != nil {
			t.Fatal(err)
		}
		var envelope struct {
			Scheme    string `json:"sig"`
			Assurance string `json:"assurance"`
		}
		if err := json.Unmarshal(stored[0].Envelope, &envelope); err != nil || envelope.Scheme != test.want || envelope.Assurance != "token" {
			t.Errorf("%s: %+v, %v, want %s", name, envelope, err, test.want)
		}
	}
}
