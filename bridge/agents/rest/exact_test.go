package rest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

// A reader that takes the first of two equal members and one that takes the last read two
// steps.
func TestDocumentWithRepeatedMembersIsRefused(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	place := decode[contract.Place](t, eliza.get(t, "/api/v1/place?to="+string(scholar.did)), http.StatusOK)
	id := mint(t)
	body := signed(t, eliza, federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, To: scholar.did, Title: "Cite three sources", Venue: place.Target,
	})
	document, _ := body["document"].(string)
	for name, repeated := range map[string]string{
		"its title first":            `{"handoff-task":"Wire me money",` + document[1:],
		"its verb first, escaped":    `{"h\u0061ndoff":"cancel",` + document[1:],
		"a member of no tag":         `{"x":"1","x":"1",` + document[1:],
		"a member that is no string": `{"handoff-note":null,` + document[1:],
	} {
		body["document"] = repeated
		t.Run(name, func(t *testing.T) {
			refused(t, eliza.post(t, "/api/v1/handoffs", body), http.StatusBadRequest, "usage")
		})
	}
	body["document"] = document
	if got := eliza.post(t, "/api/v1/handoffs", body); got.Status != http.StatusCreated {
		t.Errorf("the document as it was signed is answered %d %s", got.Status, got.Text)
	}
}

func TestBodyWithRepeatedMembersIsRefusedOnEveryPath(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite"})
	did := string(scholar.did)
	for path, body := range map[string]string{
		"/api/v1/handoffs":                   `{"to":"` + did + `","title":"a","title":"b"}`,
		"/api/v1/handoffs#context":           `{"to":"` + did + `","title":"a","context":{"x":{"y":1,"y":2}}}`,
		"/api/v1/handoffs#spelling":          `{"to":"` + did + `","title":"a","Title":"b"}`,
		"/api/v1/handoffs/" + id + "/accept": `{"note":"a","n\u006fte":"b"}`,
		"/api/v1/webhooks":                   `{"url":"https://a.example","url":"https://b.example"}`,
		"/api/v1/inbox/ack":                  `{"cursor":"a","cursor":"b"}`,
		"/api/v1/auth/challenge":             `{"did":"` + did + `","did":"` + string(eliza.did) + `"}`,
		"/api/v1/inbox/lease":                `{"limit":1,"limit":2}`,
	} {
		path, _, _ = strings.Cut(path, "#")
		got := scholar.post(t, path, json.RawMessage(body))
		if got.Status != http.StatusBadRequest || got.Header.Get("Content-Type") != "application/problem+json" || got.member("code") != "usage" {
			t.Errorf("%s on %s is answered %d %s", body, path, got.Status, got.Text)
		}
	}
}
