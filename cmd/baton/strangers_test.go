package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// newcomer returns an agent that no gateway knows.
func (h *house) newcomer(handle string) *bridgetest.Agent {
	seed := sha256.Sum256([]byte(handle))
	return bridgetest.NewAgent(h.url(), handle, seed[:])
}

// registers has an agent registered, and returns the status of the answer and when it may
// try again.
func registers(t *testing.T, agent *bridgetest.Agent) (status int, retryAfter string) {
	t.Helper()
	_, answer, err := agent.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": agent.Handle})
	if err != nil {
		t.Fatal(err)
	}
	challenge, _ := answer["challenge"].(string)
	text, err := json.Marshal(agent.Registration(challenge))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, agent.URL+"/register", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("Retry-After")
}

// wantLater checks that a new agent is told to come later.
func (h *house) wantLater(t *testing.T, handle string) {
	t.Helper()
	if status, after := registers(t, h.newcomer(handle)); status != http.StatusServiceUnavailable || after == "" {
		t.Errorf("%s is answered %d, Retry-After %q", handle, status, after)
	}
}

// offerTo returns the status of an offer of one agent to another.
func offerTo(t *testing.T, from *bridgetest.Agent, to string) int {
	t.Helper()
	status, _, err := from.Send(t.Context(), to, "please", map[string]any{"type": "task:request", "data": map[string]any{"description": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func TestStrangersAreRateLimitedByNumber(t *testing.T) {
	t.Parallel()
	for reason, limit := range map[string]string{"dids": "new_dids_per_hour = 2", "address": "new_dids_per_address_per_hour = 2"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "[limits]\n"+limit+"\n")
			h.start(t)
			h.ready(t)
			rita, sam := h.newcomer("rita_1"), h.newcomer("sam_2")
			for _, agent := range []*bridgetest.Agent{rita, sam} {
				if err := agent.Register(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			h.wantLater(t, "one_too_many")
			if status := offerTo(t, rita, "sam_2"); status != http.StatusAccepted {
				t.Errorf("an agent that came before is answered %d", status)
			}
			if n := h.counters(t)[`baton_strangers_refused_total{reason="`+reason+`"}`]; n != 1 {
				t.Errorf("%v strangers were counted, want 1", n)
			}
			if reason == "address" { // which is not in the record
				return
			}
			h.stop(t)
			h.start(t)
			h.ready(t)
			if status, _ := registers(t, h.newcomer("after_restart")); status != http.StatusCreated { // instead of one whose address is lost in a restart
				t.Errorf("the first agent after a restart is answered %d", status)
			}
			h.wantLater(t, "too_many_again")
		})
	}
}

func TestStrangersAreRateLimitedByGrowth(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\nrecord_bytes_per_hour = 1\n")
	h.start(t)
	h.ready(t)
	rita := h.newcomer("rita_1")
	if err := rita.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, answer := upload(t, rita, strings.Repeat("x", 100_000)); status != http.StatusCreated {
		t.Fatalf("a context is answered %d %v", status, answer)
	}
	h.stop(t) // each start measures the record, and remembers its size of before
	h.start(t)
	h.ready(t)
	await(t, "growth", func() bool { return h.counters(t)["baton_record_growth_bytes"] > 0 })
	h.wantLater(t, "stranger_1")
	if status := offerTo(t, rita, "rita_1"); status != http.StatusServiceUnavailable { // a note, of a DID first met within the hour
		t.Errorf("an agent that came within the hour is answered %d", status)
	}
	if n := h.counters(t)[`baton_strangers_refused_total{reason="growth"}`]; n != 2 {
		t.Errorf("%v strangers were counted, want 2", n)
	}
	warned := false
	for _, line := range h.logged(t) {
		warned = warned || line["level"] == "WARN" && line["limit"] == "limits.record_bytes_per_hour" && line["percent"] == float64(100)
	}
	if !warned {
		t.Error("the log has no warning")
	}
}
