//go:build interop

package main_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestInspIRCdHandoffCrossesToAnAgentAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.offer(t)
	knock, cursor := w.greet(t)
	checkKnock(t, w, knock)
	checkRequest(t, w, s, w.read(t, &s, cursor))
	want := []string{fmt.Sprintf("Baton: [handoff …%s] alice offers scout_7: %s (due %s)", s.id[20:], title, s.deadline.UTC().Format("15:04 MST"))}
	for _, r := range s.replies() {
		text := write(t, w.scout, w.scout.Envelope(handleOf(w.key.did), r.verb, r.payload))
		answer := post(t, w.scout, text)
		if got := answer.Handoff; answer.Status != http.StatusCreated || got.ID != s.id || got.Event != r.verb || got.State != r.state {
			t.Fatalf("%s is answered %+v", r.verb, answer)
		}
		m := nextStep(t, w.alice, r.verb, s.id)
		checkAnswer(t, w, s, m, answer.Handoff.EventID)
		checkEvidence(t, w, m, text)
		if got := m.Tags[vendor+"handoff-context"]; got != r.context {
			t.Errorf("%s carries %s, want %s", r.verb, got, r.context)
		}
		want = append(want, "scout_7: [handoff …"+s.id[20:]+"] scout_7 "+r.line)
	}
	if got := w.counters(t)[`baton_events_total{network="airc",outcome="filed",verb="complete",verdict="valid"}`]; got != 1 {
		t.Errorf("%v steps of completion were counted, want 1", got)
	}
	if code := w.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	w.fence(t)
	if diff := cmp.Diff(want, lines(w.bob)); diff != "" {
		t.Errorf("what a client without tags reads (-want +got):\n%s", diff)
	}
	for _, m := range slices.Concat(w.alice.Received(), w.bob.Received()) {
		if m.Command == "TAGMSG" {
			t.Errorf("one TAGMSG too many: %q", m)
		}
	}
}

func TestAgentIsReachedByTheDIDOfItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept, own := w.scout.DID, didKey(w.scout.Key[ed25519.SeedSize:])
	w.scout.DID = own
	s := w.offer(t)
	_, cursor := w.greet(t)
	checkRequest(t, w, s, w.read(t, &s, cursor))
	w.answer(t, s.replies()[0])
	m := nextStep(t, w.alice, "accept", s.id)
	if err := verify(m.Tags, channel); err != nil {
		t.Error(err)
	}
	if from, stands := m.Tags[vendor+"handoff-from"], m.Tags[vendor+"handoff-for"]; from != kept || stands != own {
		t.Errorf("from %s for %s, want from %s for %s", from, stands, kept, own)
	}
}

// checkKnock checks the message to an agent about a first contact.
func checkKnock(t *testing.T, w *world, m message) {
	t.Helper()
	type knock struct {
		Requester, RequesterKey, RequesterDid, Message string
		HeldMessageCount                               int
	}
	var got knock
	if err := json.Unmarshal(m.Payload.Data, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.Message, title) {
		t.Errorf("the handshake shows %q", got.Message)
	}
	got.Message = ""
	want := knock{
		Requester: handleOf(w.key.did), RequesterKey: base64.RawURLEncoding.EncodeToString(w.key.key[ed25519.SeedSize:]),
		RequesterDid: w.key.did, HeldMessageCount: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("handshake (-want +got):\n%s", diff)
	}
	if err := signedMessage(m.raw, w.scout.RegistryKey); err != nil || m.From != "system" {
		t.Errorf("handshake from %q: %v", m.From, err)
	}
}

type request struct {
	Description string          `json:"description"`
	Deadline    int64           `json:"deadline"`
	Context     json.RawMessage `json:"context"`
	Handoff     struct {
		ID         string   `json:"id"`
		Kind       string   `json:"kind"`
		Event      string   `json:"event"`
		EventID    string   `json:"event_id"`
		Seq        int      `json:"seq"`
		State      string   `json:"state"`
		Home       string   `json:"home"`
		Venue      string   `json:"venue"`
		Dialect    string   `json:"dialect"`
		From       string   `json:"from_did"`
		To         string   `json:"to_did"`
		Title      string   `json:"title"`
		Deadline   int64    `json:"deadline"`
		Caps       []string `json:"caps"`
		Provenance string   `json:"provenance"`
		Proof      proof    `json:"proof"`
	} `json:"handoff"`
}

type proof struct {
	Scheme    string `json:"scheme"`
	Document  string `json:"document"`
	Signature string `json:"signature"`
	PublicKey string `json:"publicKey"`
}

// checkRequest checks the offer as the agent reads it.
func checkRequest(t *testing.T, w *world, s session, m message) {
	t.Helper()
	var got, want request
	if err := json.Unmarshal(m.Payload.Data, &got); err != nil {
		t.Fatal(err)
	}
	if canonicalText(t, got.Context) != canonicalText(t, []byte(background)) {
		t.Errorf("context %s, want %s", got.Context, background)
	}
	fields := terms(s.deadline)
	fields["handoff"], fields["handoff-id"], fields["handoff-to"], fields["handoff-from"] = "offer", s.id, w.scout.DID, w.key.did
	want.Description, want.Deadline, want.Context = title, s.deadline.Unix(), got.Context
	h := &want.Handoff
	h.ID, h.Kind, h.Event, h.EventID, h.Seq, h.State = s.id, "handoff", "offer", s.id, 1, "offered"
	h.Home, h.Venue, h.Dialect, h.From, h.To = "gw.test", channel, "handoff", w.key.did, w.scout.DID
	h.Title, h.Deadline, h.Caps, h.Provenance = title, s.deadline.Unix(), []string{"web-search", "summarize"}, "signed"
	h.Proof = proof{
		Scheme: "handoff", Document: canonical(fields, w.key.did, channel, s.id), Signature: s.offer[vendor+"sig"],
		PublicKey: base64.RawURLEncoding.EncodeToString(w.key.key[ed25519.SeedSize:]),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offer (-want +got):\n%s", diff)
	}
	if m.From != handleOf(w.key.did) || m.To != "scout_7" || m.Seq != 1 {
		t.Errorf("message %d from %s to %s", m.Seq, m.From, m.To)
	}
	if err := signedMessage(m.raw, w.scout.RegistryKey); err != nil {
		t.Error(err)
	}
}

func canonicalText(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return canonicalValue(value)
}

// checkAnswer checks a step of the agent as the channel sees it.
func checkAnswer(t *testing.T, w *world, s session, m bridgetest.IRCMessage, eventID string) {
	t.Helper()
	if err := verify(m.Tags, channel); err != nil {
		t.Error(err)
	}
	if m.Nick != "scout_7" || m.Tags["msgid"] == "" {
		t.Errorf("it comes from %s with msgid %q", m.Nick, m.Tags["msgid"])
	}
	for name, want := range map[string]string{"handoff-from": w.scout.DID, "handoff-reply-to": s.id, "eventid": eventID} {
		if got := m.Tags[vendor+name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// checkEvidence checks that a step names the very message that it was made of.
func checkEvidence(t *testing.T, w *world, m bridgetest.IRCMessage, sent []byte) {
	t.Helper()
	status, body := get(t, m.Tags[vendor+"handoff-src"])
	sum := sha256.Sum256([]byte(body))
	if got := m.Tags[vendor+"handoff-src-h"]; status != http.StatusOK || got != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%d, %s is not the hash of %s", status, got, body)
	}
	var evidence struct {
		V                           int
		Network, Received, Document string
		Key                         struct{ Kid, PublicKey string }
	}
	if err := json.Unmarshal([]byte(body), &evidence); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(sent), evidence.Document); diff != "" {
		t.Errorf("document (-sent +kept):\n%s", diff)
	}
	if evidence.V != 1 || evidence.Network != "airc" || evidence.Key.Kid != w.scout.KeyID {
		t.Errorf("evidence %+v", evidence)
	}
	public, err := base64.RawURLEncoding.DecodeString(evidence.Key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := signedMessage([]byte(evidence.Document), public); err != nil {
		t.Error(err)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", evidence.Received); err != nil {
		t.Error(err)
	}
}
