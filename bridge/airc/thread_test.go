package airc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// say sends a plain message, which must be delivered, and returns its id.
func say(t *testing.T, from *bridgetest.Agent, to, body string) string {
	t.Helper()
	status, answer, err := from.Send(t.Context(), to, body, nil)
	if err != nil || status != http.StatusCreated {
		t.Fatal(status, answer, err)
	}
	return answer["id"].(string)
}

// thread reads bodies of a thread.
func thread(t *testing.T, a *bridgetest.Agent, query string) (bodies []string, more bool) {
	t.Helper()
	status, answer, err := a.Call(t.Context(), http.MethodGet, "/messages/thread/"+query, nil)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	for _, m := range answer["messages"].([]any) {
		bodies = append(bodies, m.(map[string]any)["body"].(string))
	}
	return bodies, answer["hasMore"].(bool)
}

func TestThreadIsReadInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner, third := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04), w.agent(t, "third", 0x05)
	befriend(t, "scout_7", planner, third)
	say(t, scout, "planner", "one")
	say(t, scout, "third", "not here")
	say(t, planner, "scout_7", "two")
	say(t, scout, "planner", "three")
	for query, want := range map[string][]string{
		"planner": {"one", "two", "three"}, "planner?after_seq=1": {"two", "three"}, "planner?limit=2": {"one", "two"},
		"planner?after_seq=3": nil, "system": nil, "anyone": nil,
	} {
		bodies, more := thread(t, scout, query)
		if diff := cmp.Diff(want, bodies); diff != "" || more != (query == "planner?limit=2") {
			t.Errorf("%s: more is %t, %s", query, more, diff)
		}
	}
	if bodies, _ := thread(t, planner, "scout_7"); !slices.Equal(bodies, []string{"one", "two", "three"}) {
		t.Errorf("the other side reads %v", bodies)
	}
	for query, want := range map[string]string{
		"nobody": "identity_not_found", "planner?limit=0": "bad_request", "planner?after_seq=-1": "bad_request", "planner?after_seq=x": "bad_request",
	} {
		if status, answer, err := scout.Call(t.Context(), http.MethodGet, "/messages/thread/"+query, nil); err != nil || answer["error"] != want {
			t.Errorf("%s: %d %v %v, want %s", query, status, answer, err, want)
		}
	}
}

func TestThreadOfAnotherNetworkHasAnAlias(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	w.offer(t, alice, scout.DID)
	for _, peer := range []string{wire.Handle(alice.DID), wire.Alias(alice.DID, "alice")} {
		if bodies, _ := thread(t, scout, peer); len(bodies) != 1 {
			t.Errorf("%s: %v", peer, bodies)
		}
	}
}

func TestMessageIsAcknowledgedOnlyByItsRecipient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	befriend(t, "scout_7", planner)
	id := say(t, scout, "planner", "hello")
	for _, test := range []struct {
		agent        *bridgetest.Agent
		method, path string
		status       int
		word         string
	}{
		{scout, http.MethodPost, id + "/ack", 404, "not_found"},
		{scout, http.MethodDelete, id, 404, "not_found"},
		{planner, http.MethodPost, "0123456789abcdef/ack", 404, "not_found"},
		{planner, http.MethodPost, id + "/ack", 200, "read"},
		{planner, http.MethodPost, id + "/ack", 200, "read"},
		{planner, http.MethodDelete, id, 200, "deleted"},
		{planner, http.MethodDelete, id, 404, "not_found"},
		{planner, http.MethodPost, id + "/ack", 404, "not_found"},
	} {
		status, answer, err := test.agent.Call(t.Context(), test.method, "/messages/"+test.path, nil)
		word := answer["status"]
		if word == nil {
			word = answer["error"]
		}
		if err != nil || status != test.status || word != test.word || status == http.StatusOK && answer["id"] != id {
			t.Errorf("%s, %s %s: %d %v %v, want %d %s", test.agent.Handle, test.method, test.path, status, answer, err, test.status, test.word)
		}
	}
	if left := inbox(t, planner); len(left) != 0 {
		t.Errorf("the recipient has %v", left)
	}
	if bodies, _ := thread(t, scout, "planner"); len(bodies) != 1 {
		t.Errorf("the sender has %v", bodies)
	}
}

func TestInboxWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seconds int
		lossy   bool
		after   time.Duration // when something arrives; 0 for never
		want    time.Duration
		bodies  int
	}{
		"it ends with the first arrival":            {30, false, 1500 * time.Millisecond, 1500 * time.Millisecond, 1},
		"a lost wake-up costs a second":             {30, true, 1500 * time.Millisecond, 2 * time.Second, 1},
		"it ends after as long as was asked":        {7, false, 0, 7 * time.Second, 0},
		"what arrives later does not count":         {7, false, 8 * time.Second, 7 * time.Second, 0},
		"it is never longer than the registry lets": {3600, false, 0, 50 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.wakes.lossy = test.lossy
				scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
				befriend(t, "planner", scout)
				if test.after > 0 {
					go func() {
						time.Sleep(test.after)
						if _, _, err := planner.Send(t.Context(), "scout_7", "hello", nil); err != nil {
							t.Error(err)
						}
					}()
				}
				began := time.Now()
				got, _, err := scout.Await(t.Context(), "", test.seconds)
				if err != nil || len(got) != test.bodies || time.Since(began) != test.want {
					t.Errorf("%d messages after %s (%v), want %d after %s", len(got), time.Since(began), err, test.bodies, test.want)
				}
				synctest.Wait()
				time.Sleep(time.Hour) // for whatever is still to come
			})
		})
	}
}

func TestInboxReturnsAtOnceOrWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout := w.agent(t, "scout_7", 0x01)
		say(t, scout, "scout_7", "hello")
		began := time.Now()
		first, cursor, err := scout.Await(t.Context(), "", 30)
		if err != nil || len(first) != 1 || time.Since(began) != 0 {
			t.Fatal(first, err, time.Since(began))
		}
		next, same, err := scout.Await(t.Context(), cursor, 5)
		if err != nil || len(next) != 0 || same != cursor || time.Since(began) != 5*time.Second {
			t.Errorf("%s %v, cursor %s, after %s", next, err, same, time.Since(began))
		}
		for _, query := range []string{"wait=-1", "wait=x", "wait=1.5", "wait=99999999999"} {
			if status, answer, err := scout.Call(t.Context(), http.MethodGet, "/messages/inbox?"+query, nil); err != nil || answer["error"] != "bad_request" {
				t.Errorf("%s: %d %v %v", query, status, answer, err)
			}
		}
		if len(w.wakes.waiting["airc.scout_7"]) != 0 {
			t.Error("somebody waits for ever")
		}
	})
}

func TestInboxWaitEndsAtShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout := w.agent(t, "scout_7", 0x01)
		go func() {
			time.Sleep(1500 * time.Millisecond)
			w.end(t)
		}()
		began := time.Now()
		got, _, err := scout.Await(t.Context(), "", 30)
		if err != nil || len(got) != 0 || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%s %v after %s", got, err, time.Since(began))
		}
	})
}

func TestConsentWakesInboxReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
		if _, _, err := scout.Send(t.Context(), "planner", "held", nil); err != nil {
			t.Fatal(err)
		}
		_, cursor, err := planner.Inbox(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		other := *planner
		go func() {
			time.Sleep(1200 * time.Millisecond)
			if _, _, err := other.Consent(t.Context(), "scout_7", "accept"); err != nil {
				t.Error(err)
			}
		}()
		began := time.Now()
		got, _, err := planner.Await(t.Context(), cursor, 30)
		if err != nil || len(got) != 1 || time.Since(began) != 1200*time.Millisecond {
			t.Fatal(got, err, time.Since(began))
		}
		var m message
		if err := json.Unmarshal(got[0], &m); err != nil || m.Body != "held" {
			t.Error(fmt.Sprint(m), err)
		}
	})
}
