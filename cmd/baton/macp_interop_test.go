//go:build interop

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// The Python SDK of MACP works against "baton serve" unchanged.
func TestMACPPythonSDKWorks(t *testing.T) {
	t.Parallel()
	r := newMACPHouse(t)
	r.keep(t, "third.token", macpToken+"third")
	r.configure(t, r.table()+"[[macp.participants]]\nname = \"third\"\ndid = \"did:web:third.example\"\ntoken_file = \"third.token\"\n")
	r.start(t)
	r.ready(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(clients(t), "macp-sdk", "bin", "python"), "testdata/clients/macp_sessions.py", r.address,
		"eliza", macpToken+"eliza", "other", macpToken+"other", "third", macpToken+"third")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	got := map[string]any{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var line [2]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		name, _ := line[0].(string)
		got[name] = line[1]
	}
	list := func(all ...any) any { return all }
	want := map[string]any{
		"modes": list("macp.mode.handoff.v1"), "start": "ok", "accept before an offer": "INVALID_ENVELOPE", "offer": "ok", "context": "ok",
		"second offer": "INVALID_ENVELOPE", "offer by the target": "FORBIDDEN", "accept by a stranger": "FORBIDDEN", "session of a stranger": "FORBIDDEN",
		"history": list("SessionStart", "HandoffOffer", "HandoffContext"), "accept": "ok", "decline after accept": "INVALID_ENVELOPE",
		"commit by the target": "FORBIDDEN", "commit": "ok", "live": list("HandoffAccept", "Commitment"), "offer after the end": "SESSION_NOT_OPEN",
		"lists": list(1.0, 1.0, 0.0), "decline": "ok", "offer to the same target": "INVALID_ENVELOPE", "offer to another target": "ok",
		"suspend": "ok", "accept while suspended": "SESSION_NOT_OPEN", "resume": "ok", "cancel by a participant": "FORBIDDEN", "cancel": "ok",
		"list with a bad token": "UNAUTHENTICATED", "unknown session": "SESSION_NOT_FOUND",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An agent of the registry and a user on IRC work with a participant of MACP, both ways.
func TestMACPWorkCrossesToAIRCAndIRC(t *testing.T) {
	t.Parallel()
	r := newMACPHouse(t)
	w := &world{house: r.house, net: newNetwork(t, r.house, "lab", "1LA"), key: newPerson(t)}
	w.net.table += r.table()
	w.populate(t)
	eliza, agent := r.participant(t, "eliza"), w.hire(t, "scout_9")

	// From MACP to an agent of the registry.
	const session = "00000000-0000-4000-8000-000000000003"
	if err := eliza.Start(t.Context(), session, macpTitle, "eliza", agent.DID); err != nil {
		t.Fatal(err)
	}
	say(t, eliza, session, macpmode.TypeOffer, "m1", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: agent.DID})
	begun := time.Now()
	agent.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	if took := time.Since(begun); took > visibleWithin {
		t.Errorf("the agent reads of it after %s", took)
	}
	handle := "plc_" + strings.TrimPrefix(elizaDID, "did:plc:")
	consent(t, agent.Agent, handle)
	offer := agent.next(t, "the offer", func(m message) bool { return about(m).Event == "offer" })
	if said := about(offer); said.Provenance != "vouched" || offer.From != handle {
		t.Errorf("the offer is from %s, %+v", offer.From, said)
	}
	done := payload("task:result", map[string]any{"requestId": offer.ID, "status": "completed", "result": map[string]any{"note": "three found"}})
	if got := post(t, agent.Agent, write(t, agent.Agent, agent.Envelope(offer.From, "", done))); got.Status != http.StatusCreated {
		t.Fatalf("the result is answered %+v", got)
	}
	if accept := sees(t, eliza, session, isType(macpmode.TypeAccept)); accept.GetSender() != agent.DID {
		t.Errorf("the accept is from %s", accept.GetSender())
	}
	if carry := told(t, eliza, session, "complete"); carry.Note != "three found" {
		t.Errorf("eliza is told %+v", carry)
	}

	// And back.
	request := agent.Envelope(handle, "Review it", payload("task:request", map[string]any{"description": "Review it"}))
	filed := post(t, agent.Agent, write(t, agent.Agent, request))
	if filed.Status != http.StatusCreated {
		t.Fatalf("the offer is answered %+v", filed)
	}
	accepts(t, eliza, agent.DID, filed.Handoff.ID)
	agent.next(t, "the accept", isAbout("accept", filed.Handoff.ID))

	// From IRC, and back.
	work := rfcTags.offer(w.key, channel, extras{"to": elizaDID, "title": "Look at the log"})
	send(t, w.alice, work.tags)
	accepts(t, eliza, w.key.did, work.handoff)
	nextStep(t, w.alice, "accept", work.handoff)
	const second = "00000000-0000-4000-8000-000000000004"
	if err := eliza.Start(t.Context(), second, "Restart the server", "eliza", w.key.did); err != nil {
		t.Fatal(err)
	}
	say(t, eliza, second, macpmode.TypeOffer, "m1", &handoffv1.HandoffOfferPayload{HandoffId: "h2", TargetParticipant: w.key.did})
	begun = time.Now()
	next(t, w.alice, "the offer", func(m bridgetest.IRCMessage) bool { return m.Tags["+freeq.at/handoff-task"] == "Restart the server" })
	if took := time.Since(begun); took > visibleWithin {
		t.Errorf("alice reads it after %s", took)
	}
}

// accepts has a participant accept the handoff that an owner offers to it.
func accepts(t *testing.T, c *bridgetest.MACPClient, owner, id string) {
	t.Helper()
	var session string
	await(t, "a session of "+owner, func() bool {
		list, err := bridgetest.MACPCall[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](t.Context(), c, "ListSessions", &macpv1.ListSessionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.GetSessions() {
			if s.GetInitiator() == owner {
				session = s.GetSessionId()
			}
		}
		return session != ""
	})
	say(t, c, session, macpmode.TypeAccept, "a1", &handoffv1.HandoffAcceptPayload{HandoffId: id, AcceptedBy: c.Name})
	sees(t, c, session, isType(macpmode.TypeCommitment))
}
