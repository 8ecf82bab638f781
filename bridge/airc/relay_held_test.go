package airc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/signing"
)

// desk files text to participants of other networks.
type desk struct {
	bridge.Messages // nil: nothing else is called

	said []federation.Text
	err  error
}

// Addressee implements [bridge.Messages].
func (*desk) Addressee(context.Context, string) (bridge.Recipient, error) {
	return bridge.Recipient{}, federation.ErrNotFound
}

// Say implements [bridge.Messages].
func (d *desk) Say(_ context.Context, m federation.Text, _ signing.Original) (bridge.TextResult, error) {
	for _, before := range d.said {
		if !m.ID.IsZero() && before.ID == m.ID {
			return bridge.TextResult{Known: true}, d.err
		}
	}
	if d.err == nil {
		d.said = append(d.said, m)
	}
	return bridge.TextResult{}, d.err
}

// texts returns the texts, without notices of held messages.
func (d *desk) texts() []string {
	texts := []string{}
	for _, m := range d.said {
		if m.Author != federation.HomeID("gw.example").DID() {
			texts = append(texts, m.Body)
		}
	}
	return texts
}

// besidePerson returns a registry that takes unsigned relays of a.test, with a person of another
// network, and the notice to the person.
func besidePerson(t *testing.T) (w *world, person federation.DID, told *desk) {
	t.Helper()
	told = &desk{}
	w = newWorld(t, func(c *airc.Config, d *airc.Deps) {
		d.Fetch, c.Peers, d.Messages = newInternet().client(), []peers.Config{{Domain: "a.test"}}, told
	})
	person = federationtest.Person("ada")
	if _, err := w.record.Append(t.Context(), federationtest.File(federationtest.Offer(1, person, federationtest.Person("bob")), federation.View{})); err != nil {
		t.Fatal(err)
	}
	return w, person, told
}

// unsigned relays a message to a person, each from an address of its own.
func (w *world) unsigned(t *testing.T, n int, from string, person federation.DID, more map[string]any) (status int, answer map[string]any) {
	t.Helper()
	body := map[string]any{"origin_registry": "a.test", "from": from, "to": wire.Handle(person), "body": "hello", "message_id": fmt.Sprintf("message-%d", n)}
	maps.Copy(body, more)
	return w.relayFrom(t, fmt.Sprintf("198.51.%d.%d:1", 100+n/200, n%200), nil, body)
}

// decides has the person decide about an unverified sender.
func (w *world) decides(t *testing.T, person federation.DID, sender string, state federation.ContactState) {
	t.Helper()
	did, err := w.link.Introduce(t.Context(), sender)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.link.Decide(t.Context(), federation.Contact{Person: person, Sender: did, State: state}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestUnsignedRelayToPersonIsHeldAndAnnouncedOnce(t *testing.T) {
	t.Parallel()
	w, person, told := besidePerson(t)
	payloads := []any{nil, request("Paint the ship"), ack("01K9ZQ0000000000000000000H", "received")}
	for _, n := range []int{0, 1, 2, 2} { // the last one again
		status, answer := w.unsigned(t, n, "amy_1", person, map[string]any{"payload": payloads[n]})
		if status != http.StatusAccepted || answer["held"] != true || answer["assurance"] != "unverified" || answer["handoff"] != nil {
			t.Errorf("relay %d: %d %v", n, status, answer)
		}
	}
	if len(told.said) != 1 || !strings.HasPrefix(told.said[0].Body, "amy_1@a.test wants to write to you.") || strings.Contains(told.said[0].Body, "hello") {
		t.Fatalf("the person is told %+v", told.said)
	}

	// An outage while the person allows them leaves the rest held.
	told.err = &federation.UnavailableError{What: "record", Err: errors.New("away")}
	did, err := w.link.Introduce(t.Context(), "?amy_1@a.test")
	if err != nil {
		t.Fatal(err)
	}
	allowed := federation.Contact{Person: person, Sender: did, State: federation.ContactAllowed}
	if err := w.link.Decide(t.Context(), allowed, time.Now()); !errors.Is(err, told.err) {
		t.Errorf("allowed during an outage: %v", err)
	}
	if status, answer := w.unsigned(t, 9, "amy_1", person, nil); status != http.StatusServiceUnavailable {
		t.Errorf("a relay during an outage: %d %v", status, answer)
	}
	told.err = nil
	for range 2 {
		if err := w.link.Decide(t.Context(), allowed, time.Now()); err != nil {
			t.Fatal(err)
		}
		status, answer := w.unsigned(t, 9, "amy_1", person, nil)
		if status != http.StatusCreated || answer["deduplicated"] != true {
			t.Errorf("the relay again: %d %v", status, answer)
		}
	}
	const mark = "[unverified, from amy_1@a.test] "
	want := []string{mark + "hello", mark + "hello\nOffer: Paint the ship", mark + "hello", mark + "hello"}
	if diff := cmp.Diff(want, told.texts()); diff != "" {
		t.Errorf("the person reads (-want +got):\n%s", diff)
	}
	for _, m := range told.said[1:] {
		if m.Author != did || m.To != person || m.Arrival.Name != "?amy_1@a.test" {
			t.Errorf("said: %+v", m)
		}
	}
}

func TestBlockedUnverifiedSenderIsRefused(t *testing.T) {
	t.Parallel()
	w, person, told := besidePerson(t)
	if status, answer := w.unsigned(t, 1, "amy_1", person, nil); status != http.StatusAccepted {
		t.Fatal(status, answer)
	}
	w.decides(t, person, "?amy_1@a.test", federation.ContactBlocked)
	if held, err := w.record.HeldRelays(t.Context(), "", "", 0, 10); err != nil || len(held) > 0 {
		t.Errorf("held after the block: %v, %v", held, err)
	}
	if status, answer := w.unsigned(t, 2, "amy_1", person, nil); status != http.StatusForbidden || answer["error"] != "REMOTE_CONSENT_BLOCKED" {
		t.Errorf("after the block: %d %v", status, answer)
	}
	if got := told.texts(); len(got) > 0 {
		t.Errorf("the person reads %v", got)
	}
	found, next, err := w.link.Contacts(t.Context(), person, "", 10)
	if err != nil || next != "" || len(found) != 1 || found[0].Name != "?amy_1@a.test" || found[0].State != federation.ContactBlocked {
		t.Errorf("its contacts: %+v, %q, %v", found, next, err)
	}
	if _, err := w.link.Introduce(t.Context(), "?ben_1@a.test"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a sender of which nothing is held: %v", err)
	}
}

func TestHeldRelaysToPersonAreBounded(t *testing.T) {
	t.Parallel()
	w, person, told := besidePerson(t)
	taken := 0
	for n := range 60 {
		status, answer := w.unsigned(t, n, fmt.Sprintf("bot_%d", n), person, nil)
		switch {
		case status == http.StatusAccepted:
			taken++
		case status != http.StatusTooManyRequests || answer["error"] != "recipient_over_capacity":
			t.Fatalf("relay %d: %d %v", n, status, answer)
		}
	}
	if taken != 20 || len(told.said) != taken {
		t.Errorf("%d of 60 unverified senders wait, and the person is told %d times; want 20", taken, len(told.said))
	}
	long := strings.Repeat("x", federation.MaxMessageChars)
	if status, answer := w.unsigned(t, 99, "bot_1", person, map[string]any{"body": long}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a text that no person can read: %d %v", status, answer)
	}
	large := map[string]any{"type": "note", "data": strings.Repeat("x", 70000)}
	if status, answer := w.unsigned(t, 99, "bot_1", person, map[string]any{"payload": large}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a payload above the limit: %d %v", status, answer)
	}
}

func TestAllowHeldDeliversOneMessage(t *testing.T) {
	t.Parallel()
	w, person, told := besidePerson(t)
	scout := w.agent(t, "scout_7", 0x01)
	for n := range 2 {
		if status, answer := w.unsigned(t, n, "amy_1", person, map[string]any{"body": fmt.Sprintf("line %d", n)}); status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
		status, answer := w.unsigned(t, n+2, "amy_1", person, map[string]any{"body": fmt.Sprintf("line %d", n), "to": "scout_7"})
		if status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
	}
	held, err := w.record.HeldRelays(t.Context(), "", "", 0, 10)
	if err != nil || len(held) != 4 {
		t.Fatal(held, err)
	}
	for _, h := range held[:2] { // the first one to each
		if err := w.link.AllowHeld(t.Context(), h.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := w.link.AllowHeld(t.Context(), h.ID, time.Now()); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("allowed again: %v", err)
		}
	}
	if diff := cmp.Diff([]string{"[unverified, from amy_1@a.test] line 0"}, told.texts()); diff != "" {
		t.Errorf("the person reads (-want +got):\n%s", diff)
	}
	if got := bodies(t, w, "scout_7"); got[len(got)-1] != "?amy_1@a.test: line 0" {
		t.Errorf("the agent reads %q", got)
	}
	// The consent is for the recipients to give.
	for _, to := range []string{wire.Handle(person), scout.Handle} {
		if edge, err := w.record.Consent(t.Context(), "?amy_1@a.test", to); err != nil || edge.State != "pending" {
			t.Errorf("consent of %s: %+v, %v", to, edge, err)
		}
	}
}

func TestUnsignedRelayToAnyoneIsRefused(t *testing.T) {
	t.Parallel()
	w, person, _ := besidePerson(t)
	status, answer := w.unsigned(t, 1, "amy_1", person, map[string]any{"to": "anyone", "payload": request("Paint the ship")})
	if message, _ := answer["message"].(string); status != http.StatusBadRequest || answer["error"] != "INVALID_REGISTRY_SIGNATURE" || !strings.HasPrefix(message, "an open offer has no recipient") {
		t.Errorf("to anyone: %d %v", status, answer)
	}
}
