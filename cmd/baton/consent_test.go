//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// decide has a caller allow or block a sender.
func decide(t *testing.T, who *caller, sender, state string) {
	t.Helper()
	who.must(t, http.StatusOK, http.MethodPut, "contacts/"+url.PathEscape(sender), map[string]any{"state": state}, nil)
}

// contacts returns the senders that a caller knows, as name and state.
func contacts(t *testing.T, who *caller) map[string]string {
	t.Helper()
	found := map[string]string{}
	for cursor := ""; ; {
		var page struct {
			Items      []struct{ DID, Name, State string }
			NextCursor string `json:"next_cursor"`
		}
		who.must(t, http.StatusOK, http.MethodGet, "contacts?limit=2&cursor="+url.QueryEscape(cursor), nil, &page)
		for _, c := range page.Items {
			if c.DID == "" {
				t.Errorf("a contact has no DID: %+v", c)
			}
			found[c.Name] = c.State
		}
		if cursor = page.NextCursor; cursor == "" {
			return found
		}
	}
}

func TestConsentOfARESTAgentSurvivesAKill(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	zoe := b.guest(t, "zoe")
	did, handle := string(b.http.did), wire.Handle(b.http.did)

	b.write(t, "finn@fq", "I am here", http.StatusCreated) // which makes the caller known

	// A message sent again is the same one, even if the first copy introduced its
	// sender.
	for range 2 {
		r := b.http.request(t, http.MethodPost, "messages", map[string]any{"to": "zoe@client", "text": "once"})
		r.Header.Set("Idempotency-Key", "one")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusAccepted {
			t.Errorf("a message with a key is answered %s", response.Status)
		}
	}
	clientReads(t, zoe, "once")

	// The first message of each sender says so; the next one does not.
	b.tellBaton(t, "say "+did+" from alice", "Your message to "+did)
	first := b.httpReads(t, "from alice")
	introduction, _ := first["introduction"].(map[string]any)
	if text, _ := introduction["text"].(string); !strings.Contains(text, first["from"].(string)) || !strings.Contains(text, "blocked") {
		t.Errorf("the first message of alice is introduced by %v", introduction)
	}
	b.tellBaton(t, "say "+did+" once more", "Your message to "+did)
	if again := b.httpReads(t, "once more"); again["introduction"] != nil {
		t.Errorf("alice is introduced again: %v", again)
	}
	b.send(t, handle, "from scout", http.StatusCreated)
	b.httpReads(t, "from scout")
	if err := zoe.Send(nil, "PRIVMSG", "Baton", "say "+did+" from zoe"); err != nil {
		t.Fatal(err)
	}
	b.httpReads(t, "from zoe")

	// The path of the introduction blocks alice. Handles and nicks name the others.
	b.http.must(t, http.StatusOK, http.MethodPut, strings.TrimPrefix(introduction["contact"].(string), "/api/v1/"), map[string]any{"state": "blocked"}, nil)
	decide(t, b.http, "scout_7", "blocked")
	decide(t, b.http, "zoe@client", "blocked")
	refused := func() {
		t.Helper()
		b.tellBaton(t, "say "+did+" blocked?", "POLICY_DENIED")
		b.send(t, handle, "blocked?", http.StatusForbidden)
		if err := zoe.Send(nil, "PRIVMSG", "Baton", "say "+did+" blocked?"); err != nil {
			t.Fatal(err)
		}
		_, err := zoe.Next(patient(t), func(m bridgetest.IRCMessage) bool {
			return m.Command == "NOTICE" && strings.HasPrefix(m.Params[1], "POLICY_DENIED")
		})
		if err != nil {
			t.Errorf("zoe is not refused: %v", err)
		}
	}
	refused()
	want := contacts(t, b.http)
	if states := fmt.Sprint(want); strings.Count(states, "blocked") != 3 || len(want) != 4 { // with finn
		t.Errorf("the contacts are %v", want)
	}
	b.kill(t)
	b.start(t)
	b.ready(t)
	if err := b.freeq.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	zoe = b.guest(t, "zoe")
	refused()
	if diff := cmp.Diff(want, contacts(t, b.http)); diff != "" {
		t.Errorf("after the kill (-want +got):\n%s", diff)
	}

	// A block is no obstacle for steps, and an answer of the caller does not lift it.
	b.write(t, "scout_7", "I write to whom I blocked", http.StatusCreated)
	b.send(t, handle, "still blocked?", http.StatusForbidden)
	decide(t, b.http, "scout_7", "allowed")
	b.send(t, handle, "at last", http.StatusCreated)
	b.httpReads(t, "at last")
}

func TestConsentOverRESTEqualsTheRegistry(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	scout := &caller{url: b.url(), token: b.scout.Token}
	b.tellBaton(t, "say scout_7 may I ask?", "Your message to scout_7")
	asker := b.asker(t, "may I ask?")
	if got := contacts(t, scout)[asker]; got != "introduced" {
		t.Errorf("alice, who asked, is %q", got)
	}
	decide(t, scout, "alice@lab", "allowed")
	b.scoutReads(t, "may I ask?") // the held message
	decide(t, scout, "alice@lab", "blocked")
	b.tellBaton(t, "say scout_7 hello?", "POLICY_DENIED")
	b.kill(t)
	b.start(t)
	b.ready(t)
	b.tellBaton(t, "say scout_7 hello?", "POLICY_DENIED")
	if got := contacts(t, scout)[asker]; got != "blocked" {
		t.Errorf("alice, who is blocked, is %q", got)
	}
	if status, answer, err := b.scout.Consent(t.Context(), asker, "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("accept: %d %v %v", status, answer, err)
	}
	if got := contacts(t, scout)[asker]; got != "allowed" {
		t.Errorf("alice, whom the registry accepted, is %q", got)
	}
	b.tellBaton(t, "say scout_7 hello again", "Your message to scout_7")
	b.scoutReads(t, "hello again")
}
