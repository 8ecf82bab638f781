//go:build interop

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// A name stands for the same participant on every network, and the error for an unknown or an ambiguous
// one has the same code, text and candidates.
func TestNamesResolveAlikeOnEveryNetwork(t *testing.T) {
	t.Parallel()
	eliza, first, second := newPerson(t), newPerson(t), newPerson(t)
	binding := "[[bindings]]\nnetwork = %q\nname = %q\ndid = %q\nvouch = true\n"
	b := newTalkative(t, "[limits]\n"+anyAddress,
		fmt.Sprintf(binding, "client", eliza.did, eliza.did), fmt.Sprintf(binding, "client", "mirror", first.did), fmt.Sprintf(binding, "lab", "mirror", second.did))
	seeker := logIn(t, b.url())
	seeker.must(t, http.StatusOK, http.MethodPut, "agents/"+string(seeker.did), map[string]any{"name": "seeker"}, nil)
	voice := b.login(t, "eliza", eliza)
	seed, _ := newSeed(t)
	host := newCommandHost(t, b.house, "--key-file", seed)
	overREST := func(path, text string) func(to, title string) string {
		return func(to, title string) string {
			response, err := http.DefaultClient.Do(b.http.request(t, http.MethodPost, path, map[string]any{"to": to, text: title}))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var problem struct{ Code, Detail string }
			if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
				t.Fatal(err)
			}
			return problem.Code + ": " + problem.Detail
		}
	}
	readByFinn := func() (lines []string) {
		for _, m := range b.freeq.Said() {
			if text, _ := m["text"].(string); m["type"] == "privmsg" && m["target"] == "finn" {
				lines = append(lines, text)
			}
		}
		return lines
	}
	networks := map[string]func(to, title string) string{
		"REST":             overREST("handoffs", "title"),
		"messages of REST": overREST("messages", "text"),
		"MCP": func(to, title string) string {
			got, code := host.tool("handoff_offer", map[string]any{"to": to, "title": title})
			return fmt.Sprint(code, ": ", member(got, "error", "detail"))
		},
		"IRC": func(to, title string) string { return asksBaton(t, voice, "offer "+to+" "+title) },
		"messages of InspIRCd": func(to, title string) string {
			b.lab.Say("alice", "PRIVMSG Baton :say "+to+" "+title)
			m, err := b.lab.Next(patient(t), func(m bridgetest.IRCMessage) bool { return m.Command == "NOTICE" && m.Params[0] == b.lab.UUID("alice") })
			if err != nil {
				t.Fatal(err)
			}
			return m.Params[1]
		},
		"messages of freeq": func(to, title string) string {
			before := len(readByFinn())
			b.finn.Tell("Baton-gw", "say "+to+" "+title)
			await(t, "the answer to "+title, func() bool { return len(readByFinn()) > before })
			return readByFinn()[before]
		},
	}
	for name, ask := range networks {
		for to, want := range map[string]string{
			"mirror":     "ambiguous-name: mirror stands for several participants; name one by its DID: mirror@client, mirror@lab",
			"seekre":     "unknown-name: no participant called seekre is known here; similar: seeker@agents",
			"nobody-3":   "unknown-name: no participant called nobody-3 is known here",
			"nobody@mud": "unknown-name: no participant called nobody@mud is known here",
		} {
			if got := ask(to, "x"); got != want {
				t.Errorf("%s answers for %s %q, want %q", name, to, got, want)
			}
		}
		for _, to := range []string{"seeker", "seeker@agents", string(seeker.did)} {
			title := name + " to " + to
			answer := ask(to, title)
			if strings.Contains(answer, "-name: ") {
				t.Errorf("%s answers for %s %q", name, to, answer)
				continue
			}
			await(t, title, func() bool {
				var inbox struct {
					Items []struct {
						Step    struct{ Title string }
						Message struct{ Text string }
					}
				}
				seeker.must(t, http.StatusOK, http.MethodGet, "inbox?limit=100", nil, &inbox)
				for _, entry := range inbox.Items {
					if entry.Step.Title == title || entry.Message.Text == title {
						return true
					}
				}
				return false
			})
		}
	}
	// The DIDs behind a name bound on two links.
	for to, did := range map[string]string{"mirror@client": first.did, "mirror@lab": second.did} {
		var filed struct{ Resolved struct{ DID string } }
		b.http.must(t, http.StatusCreated, http.MethodPost, "handoffs", map[string]any{"to": to, "title": "x"}, &filed)
		asksBaton(t, voice, "offer "+to+" y")
		var listed struct {
			Items []struct{ Offeree, Title string }
		}
		b.asks(t, &listed, "handoff", "list", "--did", did)
		if filed.Resolved.DID != did || len(listed.Items) != 2 {
			t.Errorf("%s is %s over REST, and %s has %v", to, filed.Resolved.DID, did, listed.Items)
		}
	}
}
