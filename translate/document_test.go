package translate_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
)

func TestReadDocumentReturnsTheSignedStep(t *testing.T) {
	for name, document := range map[string]string{
		"in the tags of the RFC": `{"from":"did:key:z6MkA","handoff":"accept","handoff-id":"01K9ZQ0000000000000000000H","id":"01K9ZQ0000000000000000000E","target":"#ops"}`,
		"without an id":          `{"from":"did:key:z6MkA","handoff":"accept","handoff-id":"01K9ZQ0000000000000000000H","handoff-note":"a \"b\"","target":"#ops"}`,
		"in the tags of freeq":   `{"act":"handoff","act-title":"Summarise logs","act-verb":"offer","from":"did:key:z6MkA","id":"01K9ZQ0000000000000000000A","target":"dm:did:key:z6MkA,did:key:z6MkB"}`,
	} {
		ev, err := translate.FromDocument(document)
		if err != nil || ev.From != "did:key:z6MkA" || ev.Venue == "" || len(ev.Fields) < 2 || ev.Stamped == ev.ID.IsZero() {
			t.Errorf("%s: %+v, %v", name, ev, err)
		}
		again, err := signing.Canonical(ev.Fields, ev.From, ev.Venue, ev.ID.String())
		if err != nil || again != document {
			t.Errorf("%s: %s, %v, want %s", name, again, err, document)
		}
	}
}

func TestReadDocumentRefusesOtherText(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"from":1}`, `{"from":"alice","target":"#ops"}`, `{"from":"did:key:z6MkA"}`, `{"target":"#ops"}`,
		`{"from":"did:key:z6MkA","target":"#ops","id":"x"}`, `{"from":"did:key:z6MkA","target":"#ops"} {}`,
		`{"from":"did:key:z6MkB","from":"did:key:z6MkA","target":"#ops"}`, `{"from":"did:key:z6MkA","target":"#ops","handoff":"offer","handoff":"accept"}`,
		`{"from":"did:key:z6MkA","target":"#ops","h\u0061ndoff":"offer","handoff":"accept"}`, `{"from":"did:key:z6MkA","target":"#ops","handoff-note":null}`,
	} {
		if ev, err := translate.FromDocument(text); err == nil {
			t.Errorf("%s was read as %+v", text, ev)
		}
	}
}
