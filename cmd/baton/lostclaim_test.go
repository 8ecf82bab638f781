package main_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// declares has a caller declare a capability.
func (c *caller) declares(t *testing.T, capability string) {
	t.Helper()
	c.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(string(c.did)), map[string]any{"caps": []string{capability}}, nil)
}

// claims claims a handoff, and returns the code and the detail of the answer.
func (c *caller) claims(t *testing.T, id string) (code, detail string) {
	t.Helper()
	response, err := http.DefaultClient.Do(c.request(t, http.MethodPost, "handoffs/"+id+"/claim", map[string]any{}))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var problem struct{ Code, Detail string }
	if err == nil {
		err = json.Unmarshal(text, &problem)
	}
	if err != nil {
		t.Fatalf("the claim is answered %d %s: %v", response.StatusCode, text, err)
	}
	return problem.Code, problem.Detail
}

// The refusal of a late claim names the winner on each network, during the work and long after it.
// A caller without access to the offer learns nothing.
func TestLostClaimNamesWinner(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	v := &village{house: h, scout: bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))}
	if err := v.scout.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	offerer, winner, late, stranger := logIn(t, v.url()), logIn(t, v.url()), logIn(t, v.url()), logIn(t, v.url())
	seed, _ := newSeed(t)
	tool := newCommandHost(t, v.house, "--key-file", seed)
	for _, able := range []*caller{winner, late, logInWith(t, v.url(), keyIn(t, seed))} {
		able.declares(t, "cite")
	}
	id := offerer.offer(t, map[string]any{"title": "Cite three", "caps": []string{"cite"}})
	winner.step(t, id, "claim", nil)
	private := offerer.offer(t, map[string]any{"title": "Cite four", "to": string(winner.did)})
	who, _ := v.identify(t, string(offerer.did))
	for _, now := range []struct{ step, code string }{{"", "illegal-step"}, {"complete", "terminal-handoff"}} {
		if now.step != "" {
			winner.step(t, id, now.step, nil)
		}
		if got, detail := late.claims(t, id); got != now.code || !strings.Contains(detail, string(winner.did)) {
			t.Errorf("REST answers %s: %s; want %s by %s", got, detail, now.code, winner.did)
		}
		if got, _ := stranger.claims(t, private); got != "unknown-handoff" {
			t.Errorf("a caller that never could see it is answered %s", got)
		}
		if said, got := tool.tool("handoff_claim", map[string]any{"id": id}); got != now.code || member(said, "error", "assignee") != string(winner.did) {
			t.Errorf("MCP answers %s %v; want %s by %s", got, said, now.code, winner.did)
		}
		claim := map[string]any{"type": "at.freeq:handoff", "data": map[string]any{"handoff": map[string]any{"id": id, "event": "claim"}}}
		status, answer, err := v.scout.Send(t.Context(), who.Handle, "mine", claim)
		if err != nil || status != http.StatusConflict || answer["error"] != strings.ReplaceAll(now.code, "-", "_") ||
			member(answer, "handoff", "assignee") != string(winner.did) {
			t.Errorf("AIRC answers %d %v, %v; want %s by %s", status, answer, err, now.code, winner.did)
		}
	}
}

func TestLostClaimAtAnotherHomeNamesWinner(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t)
	b.start(t)
	winner, late := logIn(t, a.url()), logIn(t, b.url())
	winner.declares(t, "cite")
	late.declares(t, "cite")
	id := logIn(t, a.url()).offer(t, map[string]any{"title": "Cite three", "caps": []string{"cite"}})
	winner.step(t, id, "claim", nil)
	agree(t, id, "offer claim", a, b)
	if got, detail := late.claims(t, id); got != "illegal-step" || !strings.Contains(detail, string(winner.did)) {
		t.Errorf("the claim is answered %s: %s; want illegal-step by %s", got, detail, winner.did)
	}
}

func keyIn(t *testing.T, path string) ed25519.PrivateKey {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(seed)
}
