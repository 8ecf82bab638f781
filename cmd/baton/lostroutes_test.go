package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
)

// An offer is acknowledged while the home with the mailbox of its recipient is no peer.
func TestLostRouteKeepsAnOffer(t *testing.T) {
	t.Parallel()
	all := newStrangers(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	a.baton(t, "peer", "add", b.url(), "--allow-private", "--yes") // b does not know a yet
	b.must(t, "peer", "add", a.url(), "--allow-private", "--yes")
	alice, _ := a.key(t, 1)
	scout := resident(t, b.house, "scout_7", 2)
	offer := func(title string) string {
		t.Helper()
		return a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", title)
	}
	bob, _ := b.key(t, 2) // scout's own key
	before := offer("While b is a peer")
	agree(t, before, "offer", all...)
	b.must(t, "handoff", "accept", before, "--key-file", bob)
	agree(t, before, "offer accept", all...)

	a.must(t, "peer", "remove", "b.test", "--yes")
	lost := offer("While b is none")
	waits := func() {
		t.Helper()
		if out := a.must(t, "explain", lost); !strings.Contains(out, "waits for a route to the mailbox of") || strings.Contains(out, "is in the inbox of") {
			t.Errorf("explain: %s", out)
		}
		if out := a.must(t, "handoff", "show", lost); !strings.Contains(out, "waiting for a route to") || strings.Contains(out, "waiting inbox") {
			t.Errorf("handoff show: %s", out)
		}
	}
	waits()
	a.stop(t) // it is on disk
	a.start(t)
	waits()
	a.must(t, "peer", "add", b.url(), "--allow-private", "--yes")
	agree(t, lost, "offer", all...)
	await(t, "the delivery", func() bool { return !strings.Contains(a.must(t, "explain", lost), "waits for a route") })
	for _, n := range all {
		n.stop(t)
		if out, ok := n.baton(t, "verify"); !ok {
			t.Errorf("verify at %s: %s", n.name, out)
		}
	}
}

// overIRC logs a DID in whose key [neighbour.key] made of a seed.
func overIRC(t *testing.T, address string, seed byte) {
	t.Helper()
	raw := make([]byte, ed25519.SeedSize)
	raw[0] = seed
	private := ed25519.NewKeyFromSeed(raw)
	public, _ := private.Public().(ed25519.PublicKey)
	prove := func(challenge string) (string, error) {
		document, err := base64.RawURLEncoding.DecodeString(challenge)
		if err != nil {
			return "", err
		}
		answer, err := json.Marshal(map[string]string{
			"did": string(identity.KeyDID(public)), "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, document)),
		})
		return base64.RawURLEncoding.EncodeToString(answer), err
	}
	client, err := bridgetest.LogInIRC(t.Context(), address, fmt.Sprintf("user%d", seed), prove, "sasl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
}

// The recipients took no step anywhere. They logged in at b, by REST or by IRC.
func TestLostRouteIsFoundAfterALogin(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	irc := map[string]string{}
	for _, n := range all {
		irc[n.name] = federationtest.FreeAddr(t)
		n.settle(t, all, fmt.Sprintf("[irc.client]\nlisten = %q\n[limits]\n%s", irc[n.name], anyAddress))
		n.start(t)
		n.ready(t)
	}
	alice, _ := a.key(t, 1)
	offer := func(to string) string {
		t.Helper()
		return a.must(t, "handoff", "offer", "--key-file", alice, "--to", to, "--title", "Cite three sources")
	}
	byREST := logIn(t, b.url())
	agree(t, offer(string(byREST.did)), "offer", all...)
	_, byIRC := b.key(t, 2)
	overIRC(t, irc["b.test"], 2)
	agree(t, offer(byIRC), "offer", all...)

	_, unseen := a.key(t, 3)
	waits := offer(unseen)
	if out := a.must(t, "explain", waits); !strings.Contains(out, "waits for a route to the mailbox of") {
		t.Errorf("explain: %s", out)
	}
	overIRC(t, irc["a.test"], 3)
	await(t, "the route", func() bool { return !strings.Contains(a.must(t, "explain", waits), "waits for a route") })
}
