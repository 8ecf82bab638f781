package identity_test

import (
	"strings"
	"testing"
)

func TestADocumentNamesTheHomeOfItsMailbox(t *testing.T) {
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
