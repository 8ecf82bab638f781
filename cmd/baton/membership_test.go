package main_test

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// adds changes the configuration and has the gateway read it again.
func (h *house) adds(t *testing.T, tables string) {
	t.Helper()
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.config, append(text, tables...), 0o600); err != nil {
		t.Fatal(err)
	}
	h.signal(t, syscall.SIGHUP)
}

// offersOverREST lets every DID offer work in channels over REST.
const offersOverREST = "[[policy.rules]]\nverbs = [\"offer\"]\npeers = [\"rest\"]\nrequire = \"vouched\"\n"

func TestMembershipIsNeededForOffersToChannels(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	bound, named, other := logIn(t, v.url()), logIn(t, v.url()), logIn(t, v.url())
	var problem struct{ Code, Detail string }
	for name, body := range map[string]map[string]any{
		"to anyone in a channel":       {"title": "work", "channel": "#ops"},
		"to anyone, without a channel": {"title": "work"},
		"to somebody in a channel":     {"title": "work", "channel": "#ops", "to": string(other.did)},
	} {
		bound.must(t, http.StatusForbidden, http.MethodPost, "handoffs", body, &problem)
		if problem.Code != "policy-denied" || !strings.Contains(problem.Detail, "join the channel") || !strings.Contains(problem.Detail, "[policy] open_offers") {
			t.Errorf("%s: refused with %+v, want what to do about it", name, problem)
		}
	}
	bound.offer(t, map[string]any{"title": "work", "to": string(other.did)}) // in no channel

	status, answer, err := v.scout.Send(t.Context(), "anyone", "work", map[string]any{"type": "task:request", "data": map[string]any{"description": "work"}})
	if err != nil || status != http.StatusCreated {
		t.Errorf("an agent of the registry that offers to anyone is answered %d %v, %v; want 201", status, answer, err)
	}

	v.asks(t, &struct{}{}, "bind", "add", "lab", "eliza", string(bound.did))
	bound.offer(t, map[string]any{"title": "work", "channel": "#ops"})

	v.adds(t, "[[policy.rules]]\nverbs = [\"offer\"]\nsenders = [\""+string(named.did)+"\"]\nrequire = \"vouched\"\n")
	await(t, "the rule", func() bool {
		response, err := http.DefaultClient.Do(named.request(t, http.MethodPost, "handoffs", map[string]any{"title": "work", "channel": "#ops"}))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusCreated
	})
	other.must(t, http.StatusForbidden, http.MethodPost, "handoffs", map[string]any{"title": "work", "channel": "#ops"}, nil)
}

func TestMembershipIsWaivedByTheOperator(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]struct{ stranger, declared int }{
		"members": {http.StatusForbidden, http.StatusForbidden},
		"agents":  {http.StatusForbidden, http.StatusCreated},
		"any":     {http.StatusCreated, http.StatusCreated},
	} {
		h := newHouse(t, "[irc.client]\nwebsocket = true\n[policy]\nopen_offers = \""+setting+"\"\n[limits]\n"+anyAddress)
		h.start(t)
		stranger, declared := logIn(t, h.url()), logIn(t, h.url())
		declared.must(t, http.StatusOK, http.MethodPut, "agents/"+string(declared.did), map[string]any{"name": "scout"}, nil)
		stranger.must(t, want.stranger, http.MethodPost, "handoffs", map[string]any{"title": "work"}, nil)
		declared.must(t, want.declared, http.MethodPost, "handoffs", map[string]any{"title": "work"}, nil)
	}
}
