package main_test

import (
	"net/http"
	"testing"
)

// A message may name a private handoff only if its author is a party. For a stranger, the handoff
// does not exist.
func TestMessageNamesPrivateHandoffOfParties(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	offerer, offeree, stranger := logIn(t, h.url()), logIn(t, h.url()), logIn(t, h.url())
	id := offerer.offer(t, map[string]any{"to": offeree.did, "title": "in private"})
	about := func(to *caller) map[string]any {
		return map[string]any{"to": to.did, "text": "about it", "handoff": id}
	}
	offerer.must(t, http.StatusCreated, http.MethodPost, "messages", about(offeree), nil)
	offeree.must(t, http.StatusCreated, http.MethodPost, "messages", about(offerer), nil)
	offerer.must(t, http.StatusCreated, http.MethodPost, "messages", about(stranger), nil)
	var refused struct{ Code string }
	for _, to := range []*caller{offerer, offeree} {
		if stranger.must(t, http.StatusNotFound, http.MethodPost, "messages", about(to), &refused); refused.Code != "unknown-handoff" {
			t.Errorf("a stranger is answered %q", refused.Code)
		}
	}
}
