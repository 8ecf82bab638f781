package airc_test

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// said returns the answer to a message in short.
func said(t *testing.T, from *bridgetest.Agent, to string, payload any) string {
	t.Helper()
	status, answer, err := from.Send(t.Context(), to, "hello", payload)
	if err != nil {
		t.Fatal(err)
	}
	if answer["error"] != nil {
		return fmt.Sprint(status, " ", answer["error"])
	}
	return fmt.Sprint(status)
}

func TestInboxQuotaHasAShareForEachSender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.room, w.share = 100, 3
	scout, planner, critic := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04), w.agent(t, "critic", 0x05)
	for _, from := range []string{"planner", "critic"} {
		if status, answer, err := scout.Consent(t.Context(), from, "accept"); err != nil || status != http.StatusOK {
			t.Fatal(status, answer, err)
		}
	}
	got := []string{
		said(t, planner, "scout_7", request("x")), // a step counts too
		said(t, planner, "scout_7", nil), said(t, planner, "scout_7", nil), said(t, planner, "scout_7", nil),
		said(t, critic, "scout_7", nil),
	}
	inbox(t, scout)
	got = append(got, said(t, planner, "scout_7", nil))
	want := []string{"201", "201", "201", "429 recipient_over_capacity", "201", "201"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestHeldMessagesHaveAShareForEachSender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.firstContacts = federation.InboxLimits{Events: 100, EventsPerSender: 3}
	scout, planner, critic := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04), w.agent(t, "critic", 0x05)
	got := []string{
		said(t, planner, "scout_7", nil), said(t, planner, "scout_7", request("x")), said(t, planner, "scout_7", nil),
		said(t, planner, "scout_7", nil), said(t, planner, "scout_7", request("x")), said(t, critic, "scout_7", nil),
	}
	want := []string{"202", "202", "202", "429 recipient_over_capacity", "429 recipient_over_capacity", "202"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if status, answer, err := scout.Consent(t.Context(), "planner", "accept"); err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	held := 0
	for _, m := range inbox(t, scout) {
		if m.From == "planner" {
			held++
		}
	}
	if held != 3 {
		t.Errorf("%d messages of planner were delivered, want the three that were held", held)
	}
}

// passerby returns a DID that the gateway never saw.
func passerby(n int) federation.SigningKey {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n)+1)
	return signingKeyOf(ed25519.NewKeyFromSeed(seed[:]))
}

// tryOffer offers something from IRC, and returns why it was refused.
func (w *world) tryOffer(t *testing.T, from federation.SigningKey, to federation.DID) (federation.HandoffID, error) {
	t.Helper()
	id := w.mint(t)
	ev := federation.Event{ID: id, Handoff: id, Verb: federation.Offer, To: to, Title: "x"}
	return id, w.submitFromIRC(t, from, ev, map[string]string{"handoff-to": string(to), "handoff-task": "x"})
}

// offersFrom returns the handles from which an agent has messages in its inbox.
func offersFrom(t *testing.T, a *bridgetest.Agent) (handles []string) {
	t.Helper()
	for cursor := ""; ; {
		raws, next, err := a.Inbox(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range raws {
			var m message
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			if m.From != "system" {
				handles = append(handles, m.From)
			}
		}
		if len(raws) == 0 {
			return handles
		}
		cursor = next
	}
}

func TestFirstContactSurvivesAFloodOfFreshDIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.firstContacts = federation.InboxLimits{Events: 100, EventsPerSender: 10}
	scout := w.agent(t, "scout_7", 0x01)
	refused := 0
	for n := range 111 {
		id, err := w.tryOffer(t, passerby(n), federation.DID(scout.DID))
		switch r, ok := errors.AsType[*federation.RefusalError](err); {
		case err == nil:
		case !ok || r.Code != federation.InboxFull || r.Handoff != id || n < 100:
			t.Fatalf("offer %d: %v (%+v)", n, err, r)
		default:
			refused++
		}
	}
	if refused != 11 {
		t.Errorf("%d offers were refused, want the last 11", refused)
	}
	if status, answer, err := scout.Consent(t.Context(), wire.Handle(passerby(0).DID), "accept"); err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	if diff := cmp.Diff([]string{wire.Handle(passerby(0).DID)}, offersFrom(t, scout)); diff != "" {
		t.Errorf("offers from (-want +got):\n%s", diff)
	}
}

func TestInboxQuotaRevealsNoBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.firstContacts = federation.InboxLimits{Events: 100, EventsPerSender: 3}
	scout := w.agent(t, "scout_7", 0x01)
	senders := []federation.SigningKey{passerby(1), passerby(2)}
	for _, from := range senders {
		if _, err := w.tryOffer(t, from, federation.DID(scout.DID)); err != nil {
			t.Fatal(err)
		}
	}
	if status, answer, err := scout.Consent(t.Context(), wire.Handle(senders[0].DID), "block"); err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	for i, from := range senders {
		for n := range 4 {
			_, err := w.tryOffer(t, from, federation.DID(scout.DID))
			if r, _ := errors.AsType[*federation.RefusalError](err); (r != nil && r.Code == federation.InboxFull) != (n >= 2) {
				t.Errorf("offer %d of sender %d, of which the first is blocked: %v", n, i, err)
			}
		}
	}
}

// spec: airc-v0.1.1 §9.6; airc-shapes "Sessions and proofs"
func TestFirstContactGetsInAfterFloodOfFreshHandles(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(n int) string{
		"four addresses":                 func(n int) string { return fmt.Sprintf("192.0.%d.7:1", n%4) },
		"one IPv4 network":               func(n int) string { return fmt.Sprintf("192.0.2.%d:1", n) },
		"34 subnets of one IPv6 site":    func(n int) string { return fmt.Sprintf("[2001:db8:7:%x::1]:1", n%34) },
		"an address that nobody can see": func(int) string { return "@" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.firstContacts = federation.InboxLimits{Events: 100, EventsPerSender: 10}
			scout := w.agent(t, "scout_7", 0x01)
			write := func(from, handle string, payload any) int {
				t.Helper()
				recorder := w.ask(t, from, http.MethodPost, "/api/presence", "", fmt.Sprintf(`{"action":"register","username":%q}`, handle))
				var registered struct{ Token string }
				if err := json.Unmarshal(recorder.Body.Bytes(), &registered); err != nil || registered.Token == "" {
					t.Fatal(recorder.Body, err)
				}
				text, err := json.Marshal(map[string]any{"to": "scout_7", "body": "hello", "payload": payload})
				if err != nil {
					t.Fatal(err)
				}
				return w.ask(t, from, http.MethodPost, "/api/messages", registered.Token, string(text)).Code
			}
			held := 0
			for n := range 104 {
				if write(address(n), fmt.Sprintf("flood_%d", n), nil) == http.StatusAccepted {
					held++
				}
			}
			if held != 100 {
				t.Errorf("%d of the flood are held, want 100", held)
			}
			if got := write("203.0.113.5:1", "honest_1", request("Cite three sources")); got != http.StatusAccepted {
				t.Errorf("the offer of an honest stranger: %d", got)
			}
			if got := write("203.0.114.5:1", "honest_2", nil); got != http.StatusAccepted {
				t.Errorf("the message of another one: %d", got)
			}
			if got := write(address(1), "flood_last", nil); got != http.StatusTooManyRequests {
				t.Errorf("the flood takes the place back: %d", got)
			}
			if got := told(scout.Consent(t.Context(), "honest_1", "accept")); got != "200" {
				t.Fatal(got)
			}
			thread, _, err := w.record.Thread(t.Context(), "scout_7", "honest_1", 0, 10)
			if err != nil || len(thread) != 1 || thread[0].Handoff.IsZero() {
				t.Errorf("after consent it reads %+v, %v, want the offer", thread, err)
			}
		})
	}
}
