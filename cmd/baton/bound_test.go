package main_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// eliza is the DID that the tests bind names to, and the handle that stands for it anyway.
const (
	eliza       = "did:plc:elizaelizaelizaelizaeliz"
	elizaHandle = "plc_elizaelizaelizaelizaeliz"
)

// identified is as much of an identity as the tests look at.
type identified struct {
	Handle, DID string
	Aliases     []string
	AlsoKnownAs []string
}

// identify asks the registry for the identity of a handle or a DID.
func (v *village) identify(t *testing.T, name string) (identified, int) {
	t.Helper()
	status, text, err := v.scout.Do(t.Context(), http.MethodGet, "/identity/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var who identified
	if err := json.Unmarshal(text, &who); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return who, status
}

func TestBindingOfAHandleStandsForItsDID(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	if _, status := v.identify(t, eliza); status != http.StatusNotFound {
		t.Fatalf("before it is bound: %d", status)
	}
	v.asks(t, &struct{}{}, "bind", "add", "airc", "scout_7", eliza)
	for _, name := range []string{eliza, "scout_7", elizaHandle} {
		who, status := v.identify(t, name)
		if status != http.StatusOK || who.Handle != "scout_7" || who.DID != v.scout.DID ||
			!slices.Contains(who.AlsoKnownAs, eliza) || !slices.Contains(who.Aliases, elizaHandle) {
			t.Errorf("%s is %d %+v", name, status, who)
		}
	}

	var filed struct{ ID, State string }
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--to", eliza, "--title", "Cite three sources")
	_, requester := v.reads(t, "system:handshake_request")
	if status, answer, err := v.scout.Consent(t.Context(), requester, "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("consent: %d, %v, %v", status, answer, err)
	}
	request, from := v.reads(t, "task:request")
	accept := map[string]any{"type": "ack", "data": map[string]any{"replyTo": request, "status": "received"}}
	if status, got, err := v.scout.Send(t.Context(), from, "on it", accept); err != nil || status != http.StatusForbidden {
		t.Errorf("it accepts for somebody whom nobody vouches for: %d, %v, %v", status, got, err)
	}
	v.asks(t, &struct{}{}, "bind", "add", "airc", "scout_7", eliza, "--vouch")
	if status, got, err := v.scout.Send(t.Context(), from, "on it", accept); err != nil || status != http.StatusCreated {
		t.Errorf("accept: %d, %v, %v", status, got, err)
	}
	var shown shownHandoff
	v.asks(t, &shown, "handoff", "show", filed.ID)
	if shown.Assignee != eliza || len(shown.Steps) != 2 || shown.Steps[1].For != eliza {
		t.Errorf("the handoff is %+v", shown)
	}

	v.asks(t, &struct{}{}, "bind", "remove", "airc", "scout_7")
	if who, status := v.identify(t, "scout_7"); status != http.StatusOK || slices.Contains(who.AlsoKnownAs, eliza) {
		t.Errorf("after it is unbound it is %d %+v", status, who)
	}
}

func TestBindingOfANameIsUnique(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	v.asks(t, &struct{}{}, "bind", "add", "airc", "scout_7", eliza)
	for why, args := range map[string][]string{
		"is bound to another DID":    {"bind", "add", "airc", "scout_7", ann},
		"the configuration binds":    {"bind", "add", "lab", "ann", eliza},
		"stands for a DID by itself": {"bind", "add", "airc", elizaHandle, ann},
	} {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--config", v.config}, args...)...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), why) {
			t.Errorf("%v: %v, %s; want %q", args, err, out, why)
		}
	}
}
