//go:build interop

package main_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// move is one step of a handoff: the steps of its other party that lead to it, and
// the resulting state.
type move struct {
	verb   string
	by     string // offerer, taker or home
	open   bool   // the offer is to anyone
	before []string
	state  string
}

// moves returns every step of the kind.
func moves() []move {
	return []move{
		{verb: "offer", by: "offerer", state: "offered"},
		{verb: "accept", by: "taker", state: "assigned"},
		{verb: "decline", by: "taker", state: "declined"},
		{verb: "claim", by: "taker", open: true, state: "assigned"},
		{verb: "progress", by: "taker", before: []string{"accept"}, state: "assigned"},
		{verb: "complete", by: "taker", before: []string{"accept", "progress"}, state: "completed"},
		{verb: "fail", by: "taker", before: []string{"accept"}, state: "failed"},
		{verb: "cancel", by: "offerer", state: "cancelled"},
		{verb: "expire", by: "home", state: "expired"},
	}
}

// states maps each step that leads to others to the resulting state.
func (m move) states() map[string]string {
	return map[string]string{"accept": "assigned", "progress": "assigned", m.verb: m.state}
}

// The links are in the dialect that people do not start in, and agents do.
func TestVerbsCrossInEachDialect(t *testing.T) {
	for _, link := range dialects() {
		t.Run("links in "+string(link), func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, link)
			for _, m := range moves() {
				t.Run("IRC starts in "+string(link.other())+"/"+m.verb, func(t *testing.T) { tw.fromIRC(t, link.other(), m) })
				t.Run("AIRC starts in "+string(link)+"/in the channel/"+m.verb, func(t *testing.T) { tw.fromAIRC(t, link, m, false) })
				if !m.open {
					t.Run("AIRC starts in "+string(link)+"/privately/"+m.verb, func(t *testing.T) { tw.fromAIRC(t, link, m, true) })
				}
			}
		})
	}
}

// fromIRC plays a handoff that alice offers to the agent.
func (tw *twin) fromIRC(t *testing.T, d dialect, m move) {
	t.Helper()
	terms := extras{"title": title, "caps": skill, "x-colour": "unknown to the gateway"}
	if !m.open {
		terms["to"] = tw.finn.DID
	}
	if m.by == "home" {
		terms["deadline"] = due(past(time.Second))
	}
	offer := d.offer(tw.key, channel, terms)
	send(t, tw.alice, offer.tags)
	seenAsSigned(t, tw.carol, d, "offer", offer)
	read := tw.finn.next(t, "the offer", isAbout("offer", offer.handoff))
	tw.checkRead(t, read, m.states(), "offer", map[string]any{
		"dialect": string(d), "document": offer.document, "signature": offer.tags[vendor+"sig"], "from": tw.key.did,
	})
	for _, verb := range append(m.before, m.verb) {
		switch {
		case verb == "offer":
		case m.by == "taker":
			tw.byAgent(t, d, offer.handoff, verb, m.states()[verb])
		case m.by == "home":
			tw.byHome(t, d, offer.handoff, channel, tw.alice, tw.carol)
		default:
			tw.byPerson(t, d, user{tw.key, tw.alice}, place{channel, channel}, offer.handoff, verb, m.states()[verb])
		}
	}
}

// byAgent lets the agent answer alice, and checks the view of both networks.
func (tw *twin) byAgent(t *testing.T, d dialect, handoff, verb, state string) {
	t.Helper()
	got, sent := printError(t, tw.finn, handleOf(tw.key.did), answerPayload(verb, handoff))
	if got.Status != http.StatusCreated || got.Handoff.ID != handoff || got.Handoff.Event != verb || got.Handoff.State != state {
		t.Fatalf("%s is answered %+v", verb, got)
	}
	for _, client := range []*bridgetest.IRCClient{tw.alice, tw.carol} {
		m := d.await(t, client, verb, handoff)
		if from := checkVouched(t, d, m, channel); from != tw.finn.DID || m.Nick != "finn" || m.Tags[vendor+"eventid"] != got.Handoff.EventID {
			t.Errorf("%s sees a %s by %s, from %s with event id %s", client.Nick, verb, m.Nick, from, m.Tags[vendor+"eventid"])
		}
		if o := fetchOriginal(t, d, m); o.Network != "airc" || o.Document != string(sent) || o.Key.Kid != tw.finn.KeyID {
			t.Errorf("evidence %+v of %s", o, sent)
		}
		tw.checkReceipt(t, d, client, channel, handoff, got.Handoff.EventID, verb)
	}
}

// checkReceipt checks that the home confirms only the steps that changed a handoff
// of act tags.
func (tw *twin) checkReceipt(t *testing.T, d dialect, client *bridgetest.IRCClient, venue, handoff, event, verb string) {
	t.Helper()
	if d == actTags && verb != "offer" && verb != "progress" {
		tw.seenConfirmed(t, client, venue, handoff, event)
	}
	for _, m := range client.Received() {
		if d.names("confirm", handoff)(m) {
			t.Errorf("%s sees a receipt too many after %s: %v", client.Nick, verb, m.Tags)
		}
	}
}

// user is a person with a client.
type user struct {
	person
	*bridgetest.IRCClient
}

// place is the place in which people write their steps.
type place struct {
	target string // as on the wire
	venue  string // as it is signed
}

// byPerson lets a person take a step, and checks it byte for byte on the other
// network, and in the agent's inbox.
func (tw *twin) byPerson(t *testing.T, d dialect, who user, at place, handoff, verb, state string) {
	t.Helper()
	step := d.step(who.person, at.venue, verb, handoff, extras{"note": "by hand"})
	if err := who.Send(step.tags, "TAGMSG", at.target); err != nil {
		t.Fatal(err)
	}
	if at.venue == channel {
		seenAsSigned(t, tw.carol, d, verb, step)
		tw.checkReceipt(t, d, tw.carol, channel, handoff, step.event, verb)
	}
	tw.checkReceipt(t, d, who.IRCClient, at.venue, handoff, step.event, verb)
	read := tw.finn.next(t, verb, isAbout(verb, handoff))
	tw.checkRead(t, read, map[string]string{verb: state}, verb, map[string]any{
		"dialect": string(d), "document": step.document, "signature": step.tags[vendor+"sig"], "from": who.did,
	})
}

// checkRead checks a step of a person as the agent reads it.
func (tw *twin) checkRead(t *testing.T, m message, states map[string]string, verb string, want map[string]any) {
	t.Helper()
	got := about(m)
	if got.Proof == nil {
		t.Fatalf("%s comes without proof: %s", verb, m.Payload.Data)
	}
	if m.Payload.Type != payloadTypes()[verb] || got.Provenance != "signed" || got.Dialect != want["dialect"] || got.Proof.Document != want["document"] || got.Proof.Signature != want["signature"] {
		t.Errorf("%s is read as %s: %s", verb, m.Payload.Type, m.Payload.Data)
	}
	if state := states[verb]; state != "" && got.State != state {
		t.Errorf("%s leads to %s, want %s", verb, got.State, state)
	}
	if m.From != handleOf(fmt.Sprint(want["from"])) {
		t.Errorf("%s comes from %s", verb, m.From)
	}
	if err := signedMessage(m.raw, tw.finn.RegistryKey); err != nil {
		t.Error(err)
	}
}

// byHome waits for the expiry, and checks all notifications.
func (tw *twin) byHome(t *testing.T, d dialect, handoff, venue string, clients ...*bridgetest.IRCClient) {
	t.Helper()
	for _, client := range clients {
		m := d.await(t, client, "expire", handoff)
		if err := d.verify(m.Tags, venue, tw.homeKey(t)); err != nil || d.from(m.Tags) != homeDID || m.Nick != "Baton" {
			t.Errorf("%s sees %s expire, %v: %v", client.Nick, m.Nick, m.Tags, err)
		}
		tw.checkReceipt(t, d, client, venue, handoff, "", "progress") // none: the home does not confirm itself
	}
	m := tw.finn.next(t, "the expiry", isAbout("expire", handoff))
	if m.Payload.Type != "at.freeq:handoff" || m.From != "system" || about(m).State != "expired" {
		t.Errorf("the agent reads %s from %s: %s", m.Payload.Type, m.From, m.Payload.Data)
	}
}

// arrive brings a user onto the first network that signs a step there, so that the gateway
// knows the DID.
func (tw *twin) arrive(t *testing.T, nick string, d dialect) user {
	t.Helper()
	who := user{newPerson(t), tw.net.join(t, nick, "message-tags")}
	hello := d.offer(who.person, channel, extras{"title": "who wants it"})
	send(t, who.IRCClient, hello.tags)
	next(t, tw.bob, "the line of "+nick, isLine(hello.handoff, nick+" offers"))
	return who
}

// leave takes a user off the network.
func (tw *twin) leave(t *testing.T, who user) {
	t.Helper()
	if err := who.Send(nil, "QUIT", "bye"); err != nil {
		t.Fatal(err)
	}
	next(t, tw.bob, "the end of "+who.Nick, func(m bridgetest.IRCMessage) bool { return m.Command == "QUIT" && m.Nick == who.Nick })
	tw.settle(t)
}

// settle returns when the gateway has read all earlier lines of its first
// link.
func (tw *twin) settle(t *testing.T) {
	t.Helper()
	fence := rfcTags.offer(tw.key, channel, extras{"title": "a fence"})
	send(t, tw.alice, fence.tags)
	rfcTags.await(t, tw.carol, "offer", fence.handoff)
}

// request lets the agent offer something, and returns the id of the handoff.
func (tw *twin) request(t *testing.T, to string, more map[string]any) string {
	t.Helper()
	data := map[string]any{"description": title}
	maps.Copy(data, more)
	got, _ := printError(t, tw.finn, to, payload("task:request", data))
	want := "offered"
	if to == "anyone" {
		want = "open"
	}
	if h := got.Handoff; got.Status != http.StatusCreated || h.Event != "offer" || h.State != want || h.EventID != h.ID {
		t.Fatalf("an offer to %s is answered %+v", to, got)
	}
	return got.Handoff.ID
}

// fromAIRC plays a handoff that the agent offers to a user on IRC, online or not.
func (tw *twin) fromAIRC(t *testing.T, d dialect, m move, privateOffer bool) {
	t.Helper()
	nick := "p" + m.verb
	if privateOffer {
		nick += "p"
	}
	who := tw.arrive(t, nick, d.other())
	at, more, to := place{channel, channel}, map[string]any{}, handleOf(who.did)
	if privateOffer {
		at.venue = privately(who.did, tw.finn.DID)
	} else if !m.open {
		tw.leave(t, who)
	}
	if m.open {
		to = "anyone"
	}
	if m.by == "home" {
		more["deadline"] = past(time.Second).Unix()
	}
	id := tw.request(t, to, more)
	witness := tw.bystander(who, privateOffer)
	offer := d.await(t, witness, "offer", id)
	if from := checkVouched(t, d, offer, at.venue); from != tw.finn.DID || offer.Nick != "finn" || offer.Tags[d.tag("for")] != "" {
		t.Errorf("the offer is by %s, from %s: %v", offer.Nick, from, offer.Tags)
	}
	if to := offer.Tags[d.tag("to")]; m.open != (to == "") || !m.open && to != who.did {
		t.Errorf("the offer is to %q, want %s", to, who.did)
	}
	if !privateOffer && !m.open && m.by == "taker" {
		who.IRCClient = tw.net.join(t, nick, "message-tags")
	}
	if privateOffer {
		at.target = map[bool]string{true: "finn", false: "Baton"}[len(m.before) == 0]
	}
	for _, verb := range append(slices.Clone(m.before), m.verb) {
		switch {
		case verb == "offer":
		case m.by == "taker":
			tw.byPerson(t, d, who, at, id, verb, m.states()[verb])
		case m.by == "home":
			tw.byHome(t, d, id, at.venue, witness)
		default:
			tw.withdrawn(t, d, id, to, at, witness)
		}
	}
}

// bystander returns the client that sees the place of an offer: the recipient of a
// private one, else a user on the other network.
func (tw *twin) bystander(who user, privateOffer bool) *bridgetest.IRCClient {
	if privateOffer {
		return who.IRCClient
	}
	return tw.carol
}

// withdrawn lets the agent cancel its offer.
func (tw *twin) withdrawn(t *testing.T, d dialect, id, to string, at place, witness *bridgetest.IRCClient) {
	t.Helper()
	got, sent := printError(t, tw.finn, to, answerPayload("cancel", id))
	if got.Status != http.StatusCreated || got.Handoff.State != "cancelled" {
		t.Fatalf("cancel is answered %+v", got)
	}
	m := d.await(t, witness, "cancel", id)
	if from := checkVouched(t, d, m, at.venue); from != tw.finn.DID {
		t.Errorf("the cancel is by %s", from)
	}
	if o := fetchOriginal(t, d, m); o.Document != string(sent) {
		t.Errorf("evidence %+v of %s", o, sent)
	}
	tw.checkReceipt(t, d, witness, at.venue, id, got.Handoff.EventID, "cancel")
}
