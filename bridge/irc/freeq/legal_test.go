package freeq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// participants gives the gateway more participants besides scout.
func participants(names ...string) func(*freeq.Config, *freeq.Deps) {
	return func(_ *freeq.Config, d *freeq.Deps) {
		known, _ := d.Rulings.(*rulings)
		for _, name := range names {
			before, did := known.ours, did(name)
			known.ours = func(ctx context.Context, of federation.DID) bool { return of == did || before(ctx, of) }
		}
	}
}

// hasLines waits until the gateway has written n lines.
func (h *house) hasLines(t *testing.T, n int) {
	t.Helper()
	err := h.server.AwaitLines(patient(t), n, isLine)
	if got := h.lines(); err != nil || got != n {
		t.Fatalf("%d lines are written, %v, want %d", got, err, n)
	}
}

// refusedAs checks that a delivery was refused, after one line and without the step.
func (h *house) refusedAs(t *testing.T, d federation.Delivery, want federation.RefusalCode) {
	t.Helper()
	before := h.lines()
	err := h.link.Deliver(patient(t), d)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != want {
		t.Errorf("the %s ends with %v, want %s", d.Entry.Event.Verb, err, want)
	}
	h.hasLines(t, before+1)
	for _, m := range h.server.Said() {
		if tags, _ := m["tags"].(map[string]any); tags["+freeq.at/eventid"] == d.Entry.Event.ID.String() {
			t.Errorf("the %s is written: %v", d.Entry.Event.Verb, m)
		}
	}
}

// An offer names the key that signs the answers, if the gateway signs both.
func TestOfferNamesTheKeyOfItsAnswers(t *testing.T) {
	h := newHouse(t, participants("mira"))
	h.run(t)
	d := h.offeredTo(t, channel, "mira")
	d.Entry.Event.Provenance, d.Entry.Event.For = federation.Vouched, did("a caller")
	d.View.Offerer = d.Entry.Event.For
	h.deliver(t, d)
	kept := h.Kept("person:" + string(did("mira"))).DID
	if document := h.server.Row(d.View.ID); !strings.Contains(document, `"act-to":"`+string(kept)+`"`) {
		t.Errorf("the offer is %s, want it to %s", document, kept)
	}
	for _, next := range []struct {
		verb  federation.Verb
		state federation.State
	}{{federation.Accept, federation.Assigned}, {federation.Progress, federation.Assigned}, {federation.Complete, federation.Completed}} {
		// Signed by mira's own key or by the kept one: the server knows one of them.
		d = h.step(t, d, "mira", next.verb, next.state)
		h.deliver(t, d)
		if got := h.server.State(d.View.ID); got != string(next.state) {
			t.Fatalf("after the %s it is %q there", next.verb, got)
		}
	}
	h.expectNothingOdd(t)
}

// A step signed by a person is never changed. If the server expects another key, the step is only a
// line.
func TestDeliverWritesUnsupportedStepsAsALine(t *testing.T) {
	h := newHouse(t, participants("mira"))
	h.run(t)
	d := h.offeredTo(t, channel, "mira")
	h.deliver(t, d)
	h.hasLines(t, 1)
	vouched := func(verb federation.Verb, state federation.State) federation.Delivery {
		d = h.step(t, d, "person:"+string(did("mira")), verb, state)
		return d
	}
	h.refusedAs(t, vouched(federation.Accept, federation.Assigned), federation.NeedSignature)
	h.refusedAs(t, vouched(federation.Progress, federation.Assigned), federation.IllegalStep)
	h.refusedAs(t, vouched(federation.Complete, federation.Completed), federation.IllegalStep)
	h.expectNothingOdd(t)
}

// Two servers may be peered for one step, and no longer for the next one.
func TestDeliverProvesStepsOfOtherServersEachTime(t *testing.T) {
	h := newHouse(t)
	other := bridgetest.NewFreeq(bridgetest.FreeqConfig{
		Name: string(otherServer), Endpoint: seeded("other endpoint"), Server: seeded("other server"), Peer: hexOf("our endpoint"), Channels: []string{channel},
	})
	t.Cleanup(other.Close)
	bridgetest.Mesh(0, h.server, other)
	h.run(t)
	bobDID, bobKey := person("bob")
	h.keys.Store(federation.KeyID(public(bobKey)), public(bobKey))
	bob := other.Join("bob", bobDID, bobKey)
	offered := func(received time.Time) federation.Delivery {
		id, err := bob.Offer(channel, "", "Review it")
		if err != nil {
			t.Fatal(err)
		}
		d := h.offered(t, channel)
		v := federation.View{
			ID: id, Kind: federation.Handoff, Dialect: federation.ActTags, Version: 1, State: federation.Open, Home: otherServer, Remote: true,
			Venue: channel, Offerer: bobDID, Title: "Review it",
		}
		d.Entry.Event.Arrival = federation.Arrival{Network: "freeq", Link: "other", Home: otherServer, Received: received}
		document := other.Row(id)
		ev, err := opened(t, document, bobKey)
		if err != nil {
			t.Fatal(err)
		}
		ev.Arrival = d.Entry.Event.Arrival
		h.gateway.know(v)
		return federation.Delivery{Entry: federation.Entry{Event: ev, Version: 1, State: v.State, Filed: time.Now()}, View: v}
	}
	first := offered(time.Now())
	h.deliver(t, first)
	for _, m := range h.server.Said() {
		if isStep("offer")(m) {
			t.Errorf("the offer is written although the peer sent it: %v", m)
		}
	}
	other.Unmesh()
	second := offered(time.Now().Add(-time.Minute)) // older than the time for peers
	h.deliver(t, second)
	if !h.server.Filed(second.View.ID.String()) {
		t.Error("the offer counts as delivered, and is not on file")
	}
	h.hasLines(t, 1)
	// The server accepts steps of the first handoff only from the other server.
	claim := h.step(t, first, "scout", federation.Claim, federation.Assigned)
	h.refusedAs(t, claim, federation.IllegalStep)
	h.expectNothingOdd(t)
}

func TestPartyHasOneUserUnderItsName(t *testing.T) {
	h := newHouse(t)
	scout := did("scout")
	h.gateway.names = map[federation.DID]string{scout: scout.Short()}
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	h.gateway.rename(scout, "mira")
	h.deliver(t, h.step(t, d, "scout", federation.Cancel, federation.Cancelled))
	if err := h.server.AwaitMember(patient(t), channel, "mira-gw"); err != nil {
		t.Fatal(err)
	}
	step, err := h.server.AwaitLine(patient(t), "the cancel", isStep("cancel"))
	if err != nil || step["from"] != "mira-gw" {
		t.Errorf("it comes from %v, %v", step["from"], err)
	}
	h.expectNothingOdd(t)
}

func TestExplainPrintsAStartCommand(t *testing.T) {
	h := newHouse(t, func(cfg *freeq.Config, d *freeq.Deps) {
		cfg.Transport, cfg.Address, cfg.PeerAPI, d.PublicURL = freeq.Exec, "192.0.2.7:4433", "http://192.0.2.7:8080", "http://127.0.0.1:8480"
	})
	text := h.link.Explain()
	id := hexOf("our endpoint")
	for _, want := range []string{
		"--iroh --iroh-port 4433 ", "--web-addr 0.0.0.0:8080 ", "--db-path ", "--server-name " + theirs + " ", "--s2s-allowed-peers " + id + " ",
		"--s2s-peer-api " + id + "=http://127.0.0.1:8480\n", "warning: http.public_url is http://127.0.0.1:8480",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	larger := id > h.server.ID()
	if strings.Contains(text, "--smallest") != larger {
		t.Errorf("our id %s, theirs %s: %s", id, h.server.ID(), text)
	}
	h.cfg.DialCommand[0] = "no-such-program"
	link, err := freeq.Open(h.cfg, h.used)
	if err != nil {
		t.Fatal(err)
	}
	if found := strings.Join(link.Describe().Obstacles, " "); !strings.Contains(found, "cargo install dumbpipe --version 0.40.1 --locked") {
		t.Errorf("obstacles %q", found)
	}
}
