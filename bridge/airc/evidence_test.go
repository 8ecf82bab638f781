package airc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// The digest of evidence is in public tags and in exports; the evidence is not public.
func TestEvidenceOfAPrivateHandoffIsForItsParties(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout, stranger := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	did := federation.DID(scout.DID)
	id := w.mint(t)
	w.fromIRC(t, alice, federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, To: did, Title: "Cite", Venue: federation.PrivateVenue(alice.DID, did),
	}, map[string]string{"handoff-to": scout.DID, "handoff-task": "Cite"})
	offer := inbox(t, scout)[0]
	if status, answer, err := scout.Send(t.Context(), offer.From, "on it", map[string]any{
		"type": "ack", "data": map[string]any{"replyTo": offer.ID, "status": "received"},
	}); err != nil || status != http.StatusCreated {
		t.Fatal(status, answer, err)
	}
	accept := w.steps(t, id)[1]
	address, found := strings.CutPrefix(accept.Fields["handoff-src"], "https://gw.example")
	path, capability, sealed := strings.Cut(address, "?k=")
	if !found || !sealed || len(capability) != 22 {
		t.Fatalf("the accept names %s", accept.Fields["handoff-src"])
	}
	anonymous := *scout
	anonymous.Token = ""
	for name, test := range map[string]struct {
		by   *bridgetest.Agent
		path string
		want int
	}{
		"by its digest alone":            {&anonymous, path, http.StatusNotFound},
		"with another capability":        {&anonymous, path + "?k=" + strings.Repeat("A", 22), http.StatusNotFound},
		"with an empty capability":       {&anonymous, path + "?k=", http.StatusNotFound},
		"by an agent that takes no part": {stranger, path, http.StatusNotFound},
		"by the address that was signed": {&anonymous, path + "?k=" + capability, http.StatusOK},
		"by a party":                     {scout, path, http.StatusOK},
	} {
		status, text, err := test.by.Do(t.Context(), http.MethodGet, test.path, nil)
		if err != nil || status != test.want || strings.Contains(string(text), "received") != (test.want == http.StatusOK) {
			t.Errorf("%s: answered %d %s (%v), want %d", name, status, text, err, test.want)
		}
	}
}
