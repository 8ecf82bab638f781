//go:build interop

package main_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// servicesName is the server that announces logins.
const servicesName = "services.irc.test"

// logIn makes a client one logged in to an account.
func (n *network) logIn(t *testing.T, nick, account string) {
	t.Helper()
	services, err := bridgetest.LinkServices(t.Context(), n.LinkAddr, servicesName, "planted-send-"+n.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(services.Close)
	if err := services.LogIn(nick, account); err != nil {
		t.Fatal(err)
	}
}

// bindingTable returns a table that binds an account of the link "lab" to [eliza].
func bindingTable(vouch string) string {
	return "[[bindings]]\nnetwork = \"lab\"\nname = \"ElizaAcct\"\ndid = \"" + eliza + "\"\nvouch = " + vouch + "\n"
}

func TestAccountLoginNeedsNoSignature(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reread(t, bindingTable("true"), w.net.table)
	w.net.logIn(t, "alice", "ElizaAcct")
	id := ulid.Make().String()
	send(t, w.alice, map[string]string{
		vendor + "handoff": "offer", vendor + "handoff-id": id, vendor + "handoff-to": w.scout.DID, vendor + "handoff-task": title,
	})
	next(t, w.bob, "the line", isLine(id, "alice offers scout_7: "))
	messages, cursor := awaitInbox(t, w.scout, "")
	if len(messages) != 1 || messages[0].Payload.Type != "system:handshake_request" {
		t.Fatalf("before consent the inbox has %+v", messages)
	}
	consent(t, w.scout, elizaHandle)
	requests, _ := awaitInbox(t, w.scout, cursor)
	s := session{id: id, message: requests[0].ID}
	for _, r := range []reply{s.replies()[0], s.replies()[2]} {
		text := write(t, w.scout, w.scout.Envelope(elizaHandle, r.verb, r.payload))
		if answer := post(t, w.scout, text); answer.Status != http.StatusCreated {
			t.Fatalf("%s is answered %+v", r.verb, answer)
		}
		nextStep(t, w.alice, r.verb, id)
	}
	var shown struct {
		Steps []struct {
			For, Provenance string
			Evidence        struct{ URL string }
		}
	}
	w.asks(t, &shown, "handoff", "show", id)
	status, evidence := get(t, shown.Steps[0].Evidence.URL)
	if first := shown.Steps[0]; first.For != eliza || first.Provenance != "vouched" || status != http.StatusOK || !strings.Contains(evidence, "TAGMSG #ops") {
		t.Errorf("the offer is %+v with %d %s", first, status, evidence)
	}
	told, code := verifyPassport(t, w.export(t, id))
	if want := "valid: offered by " + eliza + " (vouched by did:web:gw.test), accepted by "; code != 0 || !strings.HasPrefix(told, want) {
		t.Errorf("the passport: %d, %s; want %s", code, told, want)
	}

	w.reread(t, "[policy]\nrequire = \"signed\"\n", bindingTable("true"), w.net.table)
	if code := w.refusedOnIRC(t, unsignedOffer(w.scout.DID)); code != "NEED_SIGNATURE" {
		t.Errorf("where the policy wants signatures it is %s", code)
	}
	w.reread(t, bindingTable("false"), w.net.table)
	if code := w.refusedOnIRC(t, unsignedOffer(w.scout.DID)); code != "NEED_SIGNATURE" {
		t.Errorf("without vouch it is %s", code)
	}
	w.reread(t, w.net.table)
	if code := w.refusedOnIRC(t, unsignedOffer(w.scout.DID)); code != "MISSING_REQUIREMENT" {
		t.Errorf("without a binding it is %s", code)
	}
}

// unsignedOffer returns the tags of an offer without an author.
func unsignedOffer(to string) map[string]string {
	id := ulid.Make().String()
	return map[string]string{
		vendor + "handoff": "offer", vendor + "handoff-id": id, vendor + "eventid": id, vendor + "handoff-to": to, vendor + "handoff-task": title,
	}
}

func TestAccountIsReachedByItsDID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reread(t, bindingTable("true"), w.net.table)
	w.net.logIn(t, "alice", "ElizaAcct")
	var filed struct{ ID string }
	w.asks(t, &filed, "handoff", "offer", "--from", w.scout.DID, "--to", eliza, "--title", title)
	m := nextStep(t, w.alice, "offer", filed.ID)
	if m.Params[0] != "alice" {
		t.Errorf("it is said to %s, want alice alone", m.Params[0])
	}
	tags := map[string]string{vendor + "handoff": "accept", vendor + "handoff-id": filed.ID}
	if err := w.alice.Send(tags, "TAGMSG", m.Nick); err != nil {
		t.Fatal(err)
	}
	await(t, "her accept", func() bool {
		var shown shownHandoff
		w.asks(t, &shown, "handoff", "show", filed.ID)
		return shown.State == "assigned" && shown.Assignee == eliza
	})
}
