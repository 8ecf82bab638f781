//go:build interop

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// triple is three homes that know each other, each with a network of its own: InspIRCd
// at the first, an AIRC registry at the second, a freeq server at the third.
type triple struct {
	irc, airc, freeq neighbour
	all              []neighbour

	alice  user                  // offers, on InspIRCd
	scout  *mailbox              // works, through the registry
	carla  *bridgetest.FreeqUser // works, on the freeq server
	server *bridgetest.Freeq     // of carla
}

// newTriple starts all of it.
func newTriple(t *testing.T) *triple {
	t.Helper()
	all := newNeighbours(t, "gw.test", "b.test", "c.test")
	tr := &triple{irc: all[0], airc: all[1], freeq: all[2], all: all}
	lab := newNetwork(t, tr.irc.house, "lab", "1LA")
	tr.irc.settle(t, all, lab.table)
	server, table := newFreeq(t, tr.freeq.house, "fq", channel)
	table, _, _ = strings.Cut(table, "[fetch]") // which all homes have
	tr.freeq.settle(t, all, table)
	for _, n := range all {
		n.start(t)
	}
	for _, n := range all {
		n.ready(t)
	}
	tr.server = server
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	tr.alice = user{newPerson(t), lab.join(t, "alice", "message-tags")}
	tr.scout = (&world{house: tr.airc.house}).hire(t, "scout_7", skill)
	tr.carla = server.Join("carla", didOf(seeded("carla")), seeded("carla"))
	return tr
}

// rival is one party that claims an open offer, on the network of its home.
type rival struct {
	home    neighbour
	network string // as the metrics call it
	did     string
	take    func(verb federation.Verb) error // says a step there, whatever becomes of it
}

// rivals returns the parties that claim an offer, which IRC has in one dialect: one on each
// network.
func (tr *triple) rivals(t *testing.T, d dialect, offerer string, id federation.HandoffID) []rival {
	t.Helper()
	return []rival{
		{tr.irc, "spanningtree", tr.alice.did, func(verb federation.Verb) error {
			return tr.alice.Send(d.step(tr.alice.person, channel, string(verb), id.String(), nil).tags, "TAGMSG", channel)
		}},
		{tr.airc, "airc", tr.scout.DID, func(verb federation.Verb) error {
			_, _, err := tr.scout.Send(t.Context(), handleOf(offerer), "on it", answerPayload(string(verb), id.String()))
			return err
		}},
		{tr.freeq, "freeq", string(tr.carla.DID), func(verb federation.Verb) error {
			_, err := tr.carla.Step(channel, id, verb, "by hand")
			return err
		}},
	}
}

// takes lets a rival send a step.
func (r rival) takes(t *testing.T, verb federation.Verb) {
	t.Helper()
	if err := r.take(verb); err != nil {
		t.Errorf("%s on %s: %v", verb, r.network, err)
	}
}

// refusedClaims returns how many claims of its network a home refused.
func (r rival) refusedClaims(t *testing.T) float64 {
	t.Helper()
	return r.home.counters(t)[fmt.Sprintf(`baton_events_total{network=%q,outcome="refused",verb="claim",verdict="valid"}`, r.network)]
}

// settled waits until no deliveries between homes are pending: only the receipt of its
// step ends a row.
func (tr *triple) settled(t *testing.T) {
	t.Helper()
	for _, n := range tr.all {
		await(t, n.name+" to have all receipts", func() bool {
			counters := n.counters(t)
			for _, other := range tr.all {
				if rows, told := counters[fmt.Sprintf(`baton_feed_rows{link=%q,network="home"}`, other.name)]; other.name != n.name && (!told || rows > 0) {
					return false
				}
			}
			return true
		})
	}
}

// received checks which steps of a handoff are in the inbox of a DID, in order.
func (n neighbour) received(t *testing.T, did, id string, want ...string) {
	t.Helper()
	var inbox struct {
		Items []struct {
			ID   string `json:"handoff_id"`
			Verb string
		}
	}
	text := n.must(t, "inbox", "show", "--json", did)
	if err := json.Unmarshal([]byte(text), &inbox); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var got []string
	for _, each := range inbox.Items {
		if each.ID == id {
			got = append(got, each.Verb)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inbox of %s at %s (-want +got):\n%s", did, n.name, diff)
	}
}

// convinces checks that a stranger believes the passport of a handoff.
func (n neighbour) convinces(t *testing.T, id, offerer, worker string) {
	t.Helper()
	told, code := verifyPassport(t, n.export(t, id))
	if code != 0 || !strings.HasPrefix(told, "valid: offered by "+offerer+" (signed), ") || !strings.Contains(told, " by "+worker+" (") {
		t.Errorf("the passport: %d, %s", code, told)
	}
}

// stands waits until the freeq server says that a handoff is in a state.
func (tr *triple) stands(t *testing.T, id federation.HandoffID, state federation.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if err := tr.server.AwaitState(ctx, id, state); err != nil {
		t.Fatal(err)
	}
}

func TestThreeHomesCompleteHandoffs(t *testing.T) {
	t.Parallel()
	tr := newTriple(t)
	tr.handOff(t)
	tr.claim(t, tr.irc, rfcTags)
	tr.claim(t, tr.airc, rfcTags)
	tr.claim(t, tr.freeq, actTags)
	tr.claim(t, tr.airc, rfcTags, "freeq")
	tr.settled(t)
	for _, n := range tr.all {
		n.stop(t)
		if out, ok := n.baton(t, "verify"); !ok {
			t.Errorf("verify at %s: %s", n.name, out)
		}
	}
}

// handOff goes through a handoff offered on IRC to the agent of another home.
func (tr *triple) handOff(t *testing.T) {
	t.Helper()
	offer := rfcTags.offer(tr.alice.person, channel, extras{"to": tr.scout.DID, "title": title})
	send(t, tr.alice.IRCClient, offer.tags)
	tr.scout.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	consent(t, tr.scout.Agent, handleOf(tr.alice.did))
	if read := about(tr.scout.next(t, "the offer", isAbout("offer", offer.handoff))); read.From != tr.alice.did || read.Provenance != "signed" {
		t.Errorf("the agent reads %+v", read)
	}
	for _, verb := range []string{"accept", "progress", "complete"} {
		got, _ := printError(t, tr.scout, handleOf(tr.alice.did), answerPayload(verb, offer.handoff))
		if got.Status != http.StatusCreated && got.Status != http.StatusAccepted || got.Handoff.ID != offer.handoff {
			t.Fatalf("%s is answered %+v", verb, got)
		}
		rfcTags.await(t, tr.alice.IRCClient, verb, offer.handoff)
	}
	agree(t, offer.handoff, "offer accept progress complete", tr.irc, tr.airc)
	if got := tr.freeq.show(t, offer.handoff); len(got.Steps) > 0 {
		t.Errorf("a home without a party has %+v", got)
	}
	tr.airc.received(t, tr.scout.DID, offer.handoff, "offer")
	tr.irc.received(t, tr.alice.did, offer.handoff, "accept", "progress", "complete")
	tr.irc.convinces(t, offer.handoff, tr.alice.did, tr.scout.DID)
}

// claim tests an open offer of a home, shown on IRC in one dialect, and claimed on these
// networks at once, on all three if none is named.
func (tr *triple) claim(t *testing.T, at neighbour, d dialect, on ...string) {
	t.Helper()
	key, dora := at.key(t, at.name[0])
	text := at.must(t, "handoff", "offer", "--key-file", key, "--open", "--title", title)
	id, err := federation.ParseEventID(text)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, text, "offer", tr.all...)
	d.await(t, tr.alice.IRCClient, "offer", text)
	tr.stands(t, id, federation.Open)

	rivals, before := tr.rivals(t, d, dora, id), map[string]float64{}
	if len(on) > 0 {
		rivals = slices.DeleteFunc(rivals, func(r rival) bool { return !slices.Contains(on, r.network) })
	}
	for _, r := range rivals {
		before[r.network] = r.refusedClaims(t)
	}
	var racing sync.WaitGroup
	for _, r := range rivals {
		racing.Go(func() { r.takes(t, federation.Claim) })
	}
	racing.Wait()
	agree(t, text, "offer claim", tr.all...)
	tr.stands(t, id, federation.Assigned)
	winner := at.show(t, text).Assignee
	won := slices.IndexFunc(rivals, func(r rival) bool { return r.did == winner })
	if won < 0 {
		t.Fatalf("%q won", winner)
	}
	for i, r := range rivals {
		lost := i != won // and is told so each time that its server says the step again
		await(t, fmt.Sprintf("whether %s lost to be %t", r.network, lost), func() bool { return r.refusedClaims(t) > before[r.network] == lost })
	}
	rivals[won].takes(t, federation.Complete)
	agree(t, text, "offer claim complete", tr.all...)
	tr.stands(t, id, federation.Completed)
	at.received(t, dora, text, "claim", "complete")
	at.convinces(t, text, dora, winner)
}
