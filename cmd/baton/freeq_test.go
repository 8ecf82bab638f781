//go:build interop

package main_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func seeded(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func endpointOf(key ed25519.PrivateKey) string {
	public, _ := key.Public().(ed25519.PublicKey)
	return hex.EncodeToString(public)
}

func didOf(key ed25519.PrivateKey) federation.DID {
	public, _ := key.Public().(ed25519.PublicKey)
	return identity.KeyDID(public)
}

// endpoint gives the gateway of a house its endpoint key, and returns the endpoint id.
func (h *house) endpoint(t *testing.T) string {
	t.Helper()
	key := seeded("gateway endpoint")
	if err := os.MkdirAll(filepath.Join(h.dir, "data", "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "data", "keys", "endpoint"), []byte(hex.EncodeToString(key.Seed())), 0o600); err != nil {
		t.Fatal(err)
	}
	return endpointOf(key)
}

// newFreeq starts a freeq server with one channel, as the gateway's configuration names
// it, that lets the gateway of a house link to it. It returns the server with the table of
// the link.
func newFreeq(t *testing.T, h *house, name, entry string) (*bridgetest.Freeq, string) {
	t.Helper()
	there := entry[strings.LastIndexByte(entry, '#'):]
	server := bridgetest.NewFreeq(bridgetest.FreeqConfig{
		Name: name + ".freeq.test", Endpoint: seeded(name + " endpoint"), Server: seeded(name + " server"),
		Peer: h.endpoint(t), PeerAPI: h.url(), Channels: []string{there},
	})
	t.Cleanup(func() {
		for _, odd := range server.Unexpected() {
			t.Errorf("the gateway did what no gateway may: %s", odd)
		}
		if t.Failed() {
			for _, m := range server.Said() {
				t.Logf("gateway: %v", m)
			}
		}
	})
	address, err := server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server, fmt.Sprintf(`[[irc.freeq]]
name = %q
server_name = %q
endpoint_id = %q
peer_api = %q
transport = "tcp"
address = %q
channels = [%q]
[fetch]
allow_private = true
per_host = 1000
`, name, name+".freeq.test", server.ID(), server.API(), address, entry)
}

// freeqWorld is a gateway linked to a freeq server, with a user of the server and
// an agent. Each of the two lets the other write.
type freeqWorld struct {
	*house
	server *bridgetest.Freeq
	alice  *bridgetest.FreeqUser
	finn   *mailbox
}

func newFreeqWorld(t *testing.T, tables ...string) *freeqWorld {
	t.Helper()
	w := &freeqWorld{house: newHouse(t)}
	server, table := newFreeq(t, w.house, "fq", channel)
	w.server = server
	w.configure(t, append(tables, table)...)
	w.start(t)
	w.ready(t)
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	w.alice = server.Join("alice", didOf(seeded("alice")), seeded("alice"))
	w.finn = (&world{house: w.house}).hire(t, "finn", skill)
	first := w.offer(t, w.finn.DID, "say hello")
	w.finn.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	consent(t, w.finn.Agent, handleOf(string(w.alice.DID)))
	w.finn.next(t, "the first offer", isAbout("offer", first.String()))
	return w
}

// offer lets alice offer something in the channel.
func (w *freeqWorld) offer(t *testing.T, to, title string) federation.HandoffID {
	t.Helper()
	id, err := w.alice.Offer(channel, federation.DID(to), title)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// stands waits until the server says that a handoff is in a state.
func (w *freeqWorld) stands(t *testing.T, id federation.HandoffID, state federation.State) {
	t.Helper()
	// A step that a cut swallowed is routed again after waits that double: 2, 4, 8 s.
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	if err := w.server.AwaitState(ctx, id, state); err != nil {
		t.Fatal(err)
	}
}

// patient returns a context that ends when a test has waited too long.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestFreeqOfferIsDoneByAnAgent(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t)
	offer := w.offer(t, w.finn.DID, title)
	w.finn.next(t, "the offer", isAbout("offer", offer.String()))
	for _, step := range []struct{ verb, state string }{{"accept", "assigned"}, {"progress", "assigned"}, {"complete", "completed"}} {
		got, _ := printError(t, w.finn, handleOf(string(w.alice.DID)), answerPayload(step.verb, offer.String()))
		if got.Handoff.ID != offer.String() {
			t.Fatalf("%s is answered %+v", step.verb, got)
		}
		w.stands(t, offer, federation.State(step.state))
	}
}

func TestFreeqUserDoesAnAgentsOffer(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t)
	got, _ := printError(t, w.finn, handleOf(string(w.alice.DID)), payload("at.freeq:handoff", map[string]any{
		"handoff": map[string]any{"event": "offer", "title": title},
	}))
	offer, err := federation.ParseEventID(got.Handoff.ID)
	if err != nil {
		t.Fatalf("the offer is answered %+v", got)
	}
	w.stands(t, offer, federation.Offered)
	venue := w.finn.DID // alice is there, so it was private
	for _, step := range []struct {
		verb  federation.Verb
		state federation.State
	}{{federation.Accept, federation.Assigned}, {federation.Progress, federation.Assigned}, {federation.Complete, federation.Completed}} {
		if _, err := w.alice.Step(venue, offer, step.verb, "by hand"); err != nil {
			t.Fatal(err)
		}
		w.finn.next(t, string(step.verb), isAbout(string(step.verb), offer.String()))
		w.stands(t, offer, step.state)
	}
}

func TestFreeqKeysAreServedUnderTheirDIDs(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t)
	keys := w.url() + "/api/v1/signing-keys/"
	agent := url.QueryEscape(w.finn.DID)
	status, body := get(t, keys+agent)
	var served struct{ DID, Algorithm, Encoding, Source, PublicKey string }
	if err := json.Unmarshal([]byte(strings.ReplaceAll(body, "public_key", "publickey")), &served); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	raw, err := base64.RawURLEncoding.DecodeString(served.PublicKey)
	if err != nil || served.DID != w.finn.DID || served.Algorithm != "ed25519" || string(identity.KeyDID(raw)) != w.finn.DID {
		t.Errorf("served %+v", served)
	}
	for path, want := range map[string]int{
		agent + "/" + federation.KeyID(raw):              http.StatusOK,
		agent + "/AAAAAAAAAAAAAAAAAAAAAA":                http.StatusNotFound,
		url.QueryEscape(homeDID):                         http.StatusOK,
		url.QueryEscape("did:web:elsewhere.example"):     http.StatusNotFound,
		url.QueryEscape(string(w.alice.DID)) + "/nobody": http.StatusNotFound,
		"nobody": http.StatusNotFound,
	} {
		if status, body := get(t, keys+path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}

func TestFreeqRefusalReachesTheAgent(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t)
	offer := w.offer(t, w.finn.DID, title)
	w.finn.next(t, "the offer", isAbout("offer", offer.String()))
	w.server.Mute(federation.Cancel, true) // which is how it is when both act at once
	w.server.Mute(federation.Confirm, true)
	if _, err := w.alice.Step(channel, offer, federation.Cancel, ""); err != nil {
		t.Fatal(err)
	}
	got, _ := printError(t, w.finn, handleOf(string(w.alice.DID)), answerPayload("accept", offer.String()))
	if got.Status != http.StatusAccepted || got.Consent != "" || got.Handoff.State != "offered" {
		t.Errorf("the accept is answered %+v, want 202", got)
	}
	notice := w.finn.next(t, "the notice", func(m message) bool {
		return strings.Contains(string(m.Payload.Data), `"notice":"refused"`)
	})
	if read := about(notice); notice.From != "system" || read.EventID != got.Handoff.EventID || read.Event != "accept" {
		t.Errorf("the notice from %s says %+v", notice.From, read)
	}
}
