//go:build interop

package main_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// A caller over plain HTTP is no user of the server: the gateway signs its steps with a key that it
// keeps, and a private handoff is one of that key.
func TestFreeqPrivateHandoffWithAnHTTPCaller(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t)
	desk := logIn(t, w.url())
	id, err := federation.ParseEventID(desk.offer(t, map[string]any{"to": w.alice.DID, "title": "in private"}))
	if err != nil {
		t.Fatal(err)
	}
	w.stands(t, id, federation.Offered)
	for _, step := range []struct {
		verb  federation.Verb
		state federation.State
	}{{federation.Accept, federation.Assigned}, {federation.Complete, federation.Completed}} {
		if _, err := w.alice.Step(w.server.Venue(id, w.alice.DID), id, step.verb, ""); err != nil {
			t.Fatal(err)
		}
		w.stands(t, id, step.state)
	}
}
