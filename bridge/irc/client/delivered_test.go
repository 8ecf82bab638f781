package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestDeliveredNeedsTheReadersPong(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(ping string) string{
		"PONG": func(ping string) string { return "PONG " + ping[len("PING "):] },
		"handoff-ack": func(string) string {
			return "@+freeq.at/handoff-ack=" + federationtest.ID(1).String() + " TAGMSG Baton"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, testConfig())
			offer := federationtest.File(federationtest.Offer(1, bob, ada), federation.View{})
			if _, err := h.record.Append(t.Context(), offer); err != nil {
				t.Fatal(err)
			}
			slow := offer.Filed.Add(federation.DelayNotice)
			if n, err := h.record.Delay(t.Context(), slow.Add(-federation.DelayNotice), slow, 10); err != nil || n != 1 {
				t.Errorf("%d signers are told that it takes time, %v", n, err)
			}
			p := dial(t, h.addr)
			p.login(t)
			ping := p.until(t, "PING *")
			state := func() federation.DeliveryState {
				t.Helper()
				found, err := h.record.Deliveries(t.Context(), offer.View.ID, nil)
				if err != nil || len(found) != 1 || found[0].Link != federation.InboxLink || found[0].Participant != string(ada) {
					t.Fatalf("it is delivered %+v, %v", found, err)
				}
				return found[0].State
			}
			if got := state(); got != federation.DeliveryWaiting {
				t.Errorf("a page that is under way is %s", got)
			}
			p.say(t, answer(ping))
			h.awaitDelivered(t, offer.View.ID)
			if got := state(); got != federation.DeliveryDelivered {
				t.Errorf("a page that the client has is %s", got)
			}
			due, err := storetest.DueNotices(t.Context(), h.record, offer.Event.Arrival.Link, time.Now(), 10)
			if err != nil || len(due) != 2 || due[0].Notice.Kind != federation.NoticeDelayed || due[1].Notice.Kind != federation.NoticeDelivered {
				t.Errorf("the signer gets %+v, %v", due, err)
			}
		})
	}
}

func TestDeliveredKeepsAcknowledgedParts(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig(), func(d *client.Deps) { d.Messages = relayed{} })
	for n := 1; n <= 2; n++ {
		body := fmt.Sprintf("text %d", n)
		if _, _, err := h.record.FileText(t.Context(), federation.TextFiling{Inboxes: []federation.DID{ada}, Filed: federationtest.At(n), Text: federation.Text{
			ID: federationtest.ID(n), Order: federation.Conversation(bob, ada), From: bob, Author: bob, To: ada,
			Venue: federation.PrivateVenue(bob, ada), Body: body, Signature: federation.Signature{Document: body},
			Arrival: federation.Arrival{Network: "rest", Link: "rest", Received: federationtest.At(n)},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	p := dial(t, h.addr)
	p.login(t)
	ping := p.until(t, "PING *")
	keeps := func(want ...string) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			lines, err := h.record.Lines(t.Context(), federation.TimelineQuery{Place: federation.ChannelRef{Venue: federation.PrivateVenue(ada, bob)}}, 10)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, l := range lines {
				texts = append(texts, l.Text)
			}
			diff := cmp.Diff(want, texts)
			if diff == "" {
				return
			}
			if len(texts) >= len(want) || time.Since(begun) > 10*time.Second {
				t.Fatalf("the history (-want +got):\n%s", diff)
			}
		}
	}
	p.say(t, "@+freeq.at/handoff-ack="+federationtest.ID(1).String()+" TAGMSG Baton")
	keeps("text 1")
	p.say(t, "PONG "+ping[len("PING "):])
	keeps("text 1", "text 2")
}
