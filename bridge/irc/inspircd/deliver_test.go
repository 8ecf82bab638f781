package inspircd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
)

func TestDeliverWritesSteps(t *testing.T) {
	t.Run("writes the signed tags and one line from the signer's own user", func(t *testing.T) {
		h, peer := linked(t, nil)
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, h.log)
		}
		step := await(t, peer, "TAGMSG")
		want := map[string]string{
			"msgid": acceptID, "+freeq.at/handoff": "accept", "+freeq.at/handoff-id": offerID,
			"+freeq.at/handoff-from": string(scholar), "+freeq.at/handoff-reply-to": offerID,
			"+freeq.at/handoff-src": "https://gw.example/evidence/ab", "+freeq.at/handoff-x-odd": "a;b c\\d",
			"+freeq.at/sig": "ed25519:kid:BBBB", "+freeq.at/eventid": acceptID,
		}
		if diff := cmp.Diff(want, step.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		line := await(t, peer, "NOTICE")
		want = map[string]string{"msgid": acceptID + ".line", "+freeq.at/ref": offerID}
		if diff := cmp.Diff(want, line.Tags); diff != "" {
			t.Errorf("tags of the line (-want +got):\n%s", diff)
		}
		if line.Source != step.Source || line.Nick != "scholar" {
			t.Errorf("line from %q", line.Nick)
		}
		if got, want := line.Params[1], "[handoff …00000H] scholar accepts: Cite the 3 best sources; on X"; got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	})

	t.Run("gives a step that came from here its line from the gateway's user, and no second TAGMSG", func(t *testing.T) {
		h, peer := linked(t, nil)
		d := acceptRow(t)
		d.Entry.Event.Arrival.Link = linkName
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatalf("deliver: %v", err)
		}
		if line := await(t, peer, "NOTICE"); line.Nick != "Baton" {
			t.Errorf("line from %q", line.Nick)
		}
		if n := countOf(peer, "TAGMSG"); n != 0 {
			t.Errorf("%d TAGMSG", n)
		}
	})

	t.Run("introduces one user for each DID, once, with an ident of its own", func(t *testing.T) {
		h, peer := linked(t, nil)
		await(t, peer, "UID") // the gateway's
		first, second := acceptRow(t), acceptRow(t)
		second.Entry.Event.From = alice
		for _, d := range []federation.Delivery{first, second, first} {
			if err := h.link.Deliver(waiting(t), d); err != nil {
				t.Fatalf("deliver: %v", err)
			}
		}
		one, other := await(t, peer, "UID"), await(t, peer, "UID")
		if one.Params[5] == other.Params[5] {
			t.Errorf("two users with ident %q", one.Params[5])
		}
		if got, want := one.Params[len(one.Params)-1], "scholar via Baton gw.example"; got != want {
			t.Errorf("real name %q, want %q", got, want)
		}
		if nick := other.Params[2]; nick != "alice_"+alice.Hash()[:4] {
			t.Errorf("nick %q, with alice at home there", nick)
		}
		if n := countOf(peer, "UID"); n != 0 {
			t.Errorf("%d more users", n)
		}
	})

	t.Run("writes the step again and the line not, when the connection was cut before the proof", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.HoldPongs(true)
		delivered := make(chan error, 1)
		go func() { delivered <- h.link.Deliver(context.Background(), acceptRow(t)) }()
		first := await(t, peer, "TAGMSG")
		await(t, peer, "NOTICE")
		select {
		case err := <-delivered:
			t.Fatalf("delivered without proof: %v", err)
		default:
		}
		peer.Drop()
		if _, ok := errors.AsType[*federation.UnavailableError](<-delivered); !ok {
			t.Fatal("a cut is not told as a not-now")
		}
		peer.HoldPongs(false)
		again := acceptRow(t)
		again.Attempt = 1
		for { // until the link is up again
			err := h.link.Deliver(waiting(t), again)
			if err == nil {
				break
			}
			if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
				t.Fatalf("deliver again: %v", err)
			}
		}
		second := await(t, peer, "TAGMSG")
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("the second time (-first +second):\n%s", diff)
		}
		if n := countOf(peer, "NOTICE"); n != 0 {
			t.Errorf("%d more lines", n)
		}
	})

	t.Run("does not take a PONG for proof when the step's user was killed meanwhile", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.HoldPongs(true)
		delivered := make(chan error, 1)
		go func() { delivered <- h.link.Deliver(context.Background(), acceptRow(t)) }()
		source := await(t, peer, "TAGMSG").Source
		await(t, peer, "NOTICE")
		peer.Kill("alice", source)
		peer.HoldPongs(false)
		if _, ok := errors.AsType[*federation.UnavailableError](<-delivered); !ok {
			t.Error("delivered")
		}
	})

	t.Run("keeps many rows in flight", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.HoldPongs(true)
		const rows = 50
		var delivering sync.WaitGroup
		failed := make(chan error, rows)
		for i := range rows {
			delivering.Go(func() {
				d := acceptRow(t)
				d.Entry.Event.Arrival.MessageID = fmt.Sprintf("m%d", i)
				if err := h.link.Deliver(context.Background(), d); err != nil {
					failed <- err
				}
			})
		}
		seen := map[string]bool{}
		for range rows {
			seen[await(t, peer, "TAGMSG").Tags["msgid"]] = true
		}
		peer.HoldPongs(false)
		delivering.Wait()
		close(failed)
		if err := <-failed; err != nil || len(seen) != rows {
			t.Errorf("%d ids, error %v", len(seen), err)
		}
	})
}

// A signed step cannot be cut: it is written again, with the original as evidence.
func TestDeliverRendersTagsOverTheLimit(t *testing.T) {
	h, peer := linked(t, nil)
	d := acceptRow(t)
	d.Entry.Event.Fields["handoff-context"] = `["` + strings.Repeat("\\n", 2000) + `"]`
	if err := h.link.Deliver(waiting(t), d); err != nil {
		t.Fatal(err)
	}
	tags := await(t, peer, "TAGMSG").Tags
	if _, cut := tags["+freeq.at/handoff-context"]; cut || !strings.HasPrefix(tags["+freeq.at/handoff-src"], "https://gw.example/evidence/") ||
		tags["+freeq.at/handoff-src"] == "https://gw.example/evidence/ab" {
		t.Errorf("tags %.600v", tags)
	}
}

func TestDeliverDeclines(t *testing.T) {
	t.Run("for now, while there is no connection", func(t *testing.T) {
		h := newHouse(t, testConfig("127.0.0.1:1"))
		err := h.link.Deliver(t.Context(), acceptRow(t))
		if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
			t.Errorf("error %v", err)
		}
	})
	t.Run("for ever, more tags than a server carries", func(t *testing.T) {
		h, _ := linked(t, nil)
		d := acceptRow(t)
		for i := range 60 {
			d.Entry.Event.Fields[fmt.Sprintf("handoff-x-%d", i)] = "1"
		}
		err := h.link.Deliver(waiting(t), d)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InvalidTag {
			t.Errorf("error %v", err)
		}
	})
}

func TestCarriesStepsOfItsChannels(t *testing.T) {
	private := federation.PrivateVenue(alice, scholar)
	tests := []struct {
		name    string
		view    federation.View
		arrival string
		want    bool
	}{
		{"a step of its channel", federation.View{Venue: "#ops"}, "airc", true},
		{"a step of its channel that is written here alone", federation.View{Venue: "#ops", Link: linkName}, "airc", true},
		{"no step of its channel that is written elsewhere alone", federation.View{Venue: "#ops", Link: "other"}, "airc", false},
		{"its own step, which its readers have had once it is settled", federation.View{Venue: "#ops"}, linkName, true},
		{"no step of another channel", federation.View{Venue: "#other"}, "airc", false},
		{"a private step", federation.View{Venue: private, Link: linkName}, "airc", true},
		{"its own private step, for others of this network", federation.View{Venue: private, Link: linkName}, linkName, true},
		{"no private step of another link", federation.View{Venue: private, Link: "other"}, "airc", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig("127.0.0.1:7000")
			cfg.Channels = []string{"#Ops"}
			got, err := newHouse(t, cfg).link.Carries(t.Context(), federation.Event{
				Venue: "#somewhere", Arrival: federation.Arrival{Link: tt.arrival},
			}, tt.view)
			if err != nil || got != tt.want {
				t.Errorf("carries %v, %v", got, err)
			}
		})
	}
}
