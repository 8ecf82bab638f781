//go:build interop

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// peered is a registry that signs nothing.
const peered = "[[airc.peers]]\ndomain = \"peer.test\"\n"

// relays has peer.test relay a message without a signature, as deployed registries do.
func (b *talkative) relays(t *testing.T, from, to, id, body string, payload any, want int) map[string]any {
	t.Helper()
	text, err := json.Marshal(map[string]any{"origin_registry": "peer.test", "from": from, "to": to, "body": body, "payload": payload, "message_id": id})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url()+"/federation/relay", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != want {
		t.Fatalf("%s relays to %s: %s %v, %v; want %d", from, to, response.Status, answer, err, want)
	}
	return answer
}

// heldRelay is a line of "airc held".
type heldRelay struct {
	ID             int64
	From, To, Text string
}

func (b *talkative) held(t *testing.T) []heldRelay {
	t.Helper()
	var page struct{ Items []heldRelay }
	b.asks(t, &page, "--json", "airc", "held")
	return page.Items
}

func (b *talkative) heldFor(t *testing.T, to, text string) string {
	t.Helper()
	all := b.held(t)
	i := slices.IndexFunc(all, func(h heldRelay) bool { return h.To == to && h.Text == text })
	if i < 0 {
		t.Fatalf("%q to %s is not held: %+v", text, to, all)
	}
	return fmt.Sprint(all[i].ID)
}

// announced is the notice of a held message, as it begins.
func announced(sender string) string {
	return sender + " wants to write to you. Nothing proves who that is, so the message is held."
}

func beginsWith(text string) func(m bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool {
		return m.Command == "PRIVMSG" && strings.HasPrefix(m.Params[1], text)
	}
}

func TestUnsignedRelayIsHeldUntilItsRecipientOrTheOperatorAllowsIt(t *testing.T) {
	t.Parallel()
	b := newTalkative(t, peered)
	b.write(t, "scout_7", "hello scout", http.StatusCreated) // a caller is known once it has acted
	agent := wire.Handle(b.http.did)
	zoe := b.guest(t, "zoe")
	if err := zoe.Send(nil, "PRIVMSG", "Baton", "say scout_7 zoe here"); err != nil {
		t.Fatal(err)
	}
	person := b.asker(t, "zoe here")
	offer := map[string]any{"type": "task:request", "data": map[string]any{"description": "Paint the ship"}}
	const mark = "[unverified, from amy_1@peer.test] "

	for _, to := range []string{person, agent, "scout_7"} {
		for n, body := range []string{"first", "work"} {
			answer := b.relays(t, "amy_1", to, fmt.Sprintf("message-%d-%s", n, to), body, map[string]any{"work": offer}[body], http.StatusAccepted)
			want := map[string]any{"held": true, "consent_status": "pending", "assurance": "unverified"}
			got := map[string]any{"held": answer["held"], "consent_status": answer["consent_status"], "assurance": answer["assurance"]}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("to %s (-want +got):\n%s", to, diff)
			}
		}
	}
	if _, err := zoe.Next(patient(t), beginsWith(announced("amy_1@peer.test"))); err != nil {
		t.Fatal(err)
	}
	if got := b.inboxTexts(t); len(got) != 1 || !strings.HasPrefix(got[0], announced("amy_1@peer.test")) {
		t.Errorf("the caller reads %q", got)
	}
	b.kill(t)
	b.start(t)
	b.ready(t)
	if all := b.held(t); len(all) != 6 {
		t.Fatalf("held after the kill: %+v", all)
	}
	zoe = b.guest(t, "zoe")

	// The operator allows one message to each, and drops the other one to the agent. Consent stays
	// for the recipients to give.
	for _, to := range []string{person, agent, "scout_7"} {
		if code, told := b.run(t, "airc", "allow", b.heldFor(t, to, "work"), "--reason", "I know her"); code != 0 {
			t.Fatal(told)
		}
	}
	m, err := zoe.Next(patient(t), beginsWith(mark+"work"))
	if err != nil {
		t.Fatal(err)
	}
	b.httpReads(t, mark+"work\nOffer: Paint the ship")
	b.scoutReads(t, "work")
	if code, told := b.run(t, "airc", "drop", b.heldFor(t, "scout_7", "first"), "--yes"); code != 0 {
		t.Fatal(told)
	}
	if code, told := b.run(t, "airc", "allow", "999"); code != 1 || !strings.Contains(told, "there is no held message 999") {
		t.Errorf("allowed what is not held: exit code %d, %s", code, told)
	}
	var audit struct {
		Items []struct{ What, Subject, Reason string }
	}
	b.asks(t, &audit, "audit", "list")
	if len(audit.Items) != 4 || audit.Items[0].What != "airc drop" || audit.Items[3].What != "airc allow" || audit.Items[3].Reason != "I know her" ||
		!strings.HasPrefix(audit.Items[3].Subject, "?amy_1@peer.test to "+person) {
		t.Errorf("audit: %+v", audit.Items)
	}
	if all := b.held(t); len(all) != 2 {
		t.Errorf("held for the person and the caller: %+v", all)
	}

	// The recipients allow the sender: the held messages arrive, and later ones
	// are not held.
	if err := zoe.Send(nil, "PRIVMSG", "Baton", "allow ?amy_1@peer.test"); err != nil {
		t.Fatal(err)
	}
	if _, err := zoe.Next(patient(t), beginsWith(mark+"first")); err != nil {
		t.Fatal(err)
	}
	if got := b.contactStates(t); got["?amy_1@peer.test"] != "introduced" {
		t.Errorf("the contacts of the caller: %v", got)
	}
	decide(t, b.http, "?amy_1@peer.test", "allowed")
	b.httpReads(t, mark+"first")
	if got := b.contactStates(t); got["?amy_1@peer.test"] != "allowed" {
		t.Errorf("the contacts of the caller: %v", got)
	}
	for _, to := range []string{person, agent} {
		b.relays(t, "amy_1", to, "message-9-"+to, "later", nil, http.StatusCreated)
	}
	if _, err := zoe.Next(patient(t), beginsWith(mark+"later")); err != nil {
		t.Fatal(err)
	}
	b.httpReads(t, mark+"later")

	// An answer, and an offer, to the unverified sender are refused with the address that works.
	const instead = "write to amy_1@peer.test instead"
	if err := zoe.Send(nil, "PRIVMSG", nickOf(m), "my answer"); err != nil {
		t.Fatal(err)
	}
	if _, err := zoe.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.HasSuffix(m.Params[len(m.Params)-1], instead)
	}); err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]map[string]any{
		"messages": {"to": "?amy_1@peer.test", "text": "my answer"}, "handoffs": {"to": b.unverifiedDID(t, mark+"later"), "title": "Count the ships"},
	} {
		var problem struct{ Code, Detail string }
		b.http.must(t, http.StatusBadRequest, http.MethodPost, path, body, &problem)
		if problem.Code != "invalid-target" || !strings.HasSuffix(problem.Detail, instead) {
			t.Errorf("%s: %+v", path, problem)
		}
	}
	// No step was taken.
	var handoffs struct{ Items []any }
	b.asks(t, &handoffs, "handoff", "list")
	if len(handoffs.Items) > 0 {
		t.Errorf("handoffs: %v", handoffs.Items)
	}
}

func TestHeldRelaysExpire(t *testing.T) {
	t.Parallel()
	b := newTalkative(t, peered)
	b.write(t, "scout_7", "hello scout", http.StatusCreated)
	for _, to := range []string{wire.Handle(b.http.did), "scout_7"} {
		b.relays(t, "amy_1", to, "message-"+to, "first", nil, http.StatusAccepted)
	}
	b.stop(t)
	text, err := os.ReadFile(b.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.config, append(text, "\n[retention]\nmessages = \"1ms\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	b.ready(t)
	await(t, "held relays to expire", func() bool { return len(b.held(t)) == 0 })
	if !strings.Contains(fmt.Sprint(b.logged(t)), "held relays expired") {
		t.Error("the log has no line about it")
	}
}

// inboxTexts returns the messages in the inbox of the REST caller.
func (b *talkative) inboxTexts(t *testing.T) (all []string) {
	t.Helper()
	var page struct {
		Items []struct{ Message struct{ Text string } }
	}
	b.http.must(t, http.StatusOK, http.MethodGet, "inbox", nil, &page)
	for _, e := range page.Items {
		all = append(all, e.Message.Text)
	}
	return all
}

// unverifiedDID returns the sender of a message to the REST caller.
func (b *talkative) unverifiedDID(t *testing.T, text string) any {
	t.Helper()
	return b.httpReads(t, text)["from"]
}

// contactStates returns the decisions of the REST caller, by the names of the
// senders.
func (b *talkative) contactStates(t *testing.T) map[string]string {
	t.Helper()
	var page struct {
		Items []struct{ Name, State string }
	}
	b.http.must(t, http.StatusOK, http.MethodGet, "contacts", nil, &page)
	states := map[string]string{}
	for _, c := range page.Items {
		states[c.Name] = c.State
	}
	return states
}
