package identity_test

import (
	"strings"
	"testing"
)

func TestMailboxIsReadFromADocument(t *testing.T) {
	for entry, want := range map[string]string{
		``:               "",
		`"service": []`:  "",
		`"service": {}`:  "",
		`"service": [7]`: "",
		`"service": [{"type": "Other", "serviceEndpoint": "https://c.example"}]`:                                    "",
		`"service": [{"type": "BatonHome"}]`:                                                                        "",
		`"service": [{"type": "BatonHome", "serviceEndpoint": {"uri": "https://b.example"}}]`:                       "",
		`"service": [{"type": "BatonHome", "serviceEndpoint": "https://b.example"}]`:                                "https://b.example",
		`"service": [{"type": ["Other", "BatonHome"], "serviceEndpoint": "https://b.example"}]`:                     "https://b.example",
		`"service": [{"type": "Other"}, {"id": "#x", "type": "BatonHome", "serviceEndpoint": "https://b.example"}]`: "https://b.example",
	} {
		body := strings.Replace(`{"id": "did:web:alice.example", ENTRY}`, "ENTRY", entry, 1)
		body = strings.Replace(body, ", }", "}", 1)
		pages := &web{pages: map[string]string{"https://alice.example/.well-known/did.json": body}}
		document, err := newDirectory(pages).Resolve(t.Context(), "did:web:alice.example", noon())
		if err != nil || document.Mailbox != want {
			t.Errorf("%s names %q, %v; want %q", entry, document.Mailbox, err, want)
		}
	}
}

func TestMailboxIsReadFromALog(t *testing.T) {
	home := map[string]any{"type": "BatonHome", "endpoint": "https://b.example"}
	for name, tt := range map[string]struct {
		services map[string]any
		want     string
	}{
		"one home":              {map[string]any{"home": home, "pds": map[string]any{"type": "Other", "endpoint": "https://c.example"}}, "https://b.example"},
		"none":                  {map[string]any{}, ""},
		"another service":       {map[string]any{"home": map[string]any{"type": "Other", "endpoint": "https://b.example"}}, ""},
		"two homes":             {map[string]any{"a": home, "b": home}, ""},
		"no endpoint":           {map[string]any{"home": map[string]any{"type": "BatonHome"}}, ""},
		"a service that is not": {map[string]any{"home": "https://b.example"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, key := &ledger{}, newP256(1)
			operation := update('a', key)
			operation["services"] = tt.services
			l.add(key, 0, -1, operation)
			if got, err := l.resolve(t); err != nil || got.Mailbox != tt.want {
				t.Errorf("it names %q, %v; want %q", got.Mailbox, err, tt.want)
			}
		})
	}
}
