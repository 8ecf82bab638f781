package airc_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// An agent has a step when it was handed it, by whatever answer, or says so itself.
//
// spec: airc-v0.1.1 §7.4
func TestHandoutDeliversAStep(t *testing.T) {
	t.Parallel()
	for name, fetch := range map[string]func(scout *bridgetest.Agent, id string) (int, map[string]any, error){
		"the inbox": func(scout *bridgetest.Agent, _ string) (int, map[string]any, error) {
			return scout.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)
		},
		"a thread": func(scout *bridgetest.Agent, _ string) (int, map[string]any, error) {
			return scout.Call(t.Context(), http.MethodGet, "/messages/thread/amy_1", nil)
		},
		"the thread of clients in use": func(scout *bridgetest.Agent, _ string) (int, map[string]any, error) {
			return scout.Call(t.Context(), http.MethodGet, "/api/messages?user=scout_7&with=amy_1", nil)
		},
		"an acknowledgement": func(scout *bridgetest.Agent, id string) (int, map[string]any, error) {
			return scout.Call(t.Context(), http.MethodPost, "/messages/"+id+"/ack", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scout, amy := w.agent(t, "scout_7", 0x01), w.agent(t, "amy_1", 0x05)
			if _, err := w.record.Accept(t.Context(), "amy_1", "scout_7", time.Now()); err != nil {
				t.Fatal(err)
			}
			status, answer, err := amy.Send(t.Context(), "scout_7", "please", request("Cite three sources"))
			if err != nil || status != http.StatusCreated {
				t.Fatal(status, answer, err)
			}
			offer, _ := answer["id"].(string)
			handoff, _ := answer["handoff"].(map[string]any)["id"].(string)
			id, err := federation.ParseEventID(handoff)
			if err != nil {
				t.Fatal(err)
			}
			state := func() []federation.DeliveryState {
				found, err := w.record.Deliveries(t.Context(), id, nil)
				if err != nil {
					t.Fatal(err)
				}
				var all []federation.DeliveryState
				for _, d := range found {
					all = append(all, d.State)
				}
				return all
			}
			if diff := cmp.Diff([]federation.DeliveryState{federation.DeliveryWaiting}, state()); diff != "" {
				t.Errorf("in the inbox (-want +got):\n%s", diff)
			}
			if got := told(fetch(scout, offer)); got != "200" {
				t.Fatal(got)
			}
			if diff := cmp.Diff([]federation.DeliveryState{federation.DeliveryDelivered}, state()); diff != "" {
				t.Errorf("handed out (-want +got):\n%s", diff)
			}
		})
	}
}
