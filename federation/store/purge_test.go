package store_test

import (
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runPurges(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a purge takes all that waits of its senders, and nothing else", s.testPurge)
	t.Run("senders are told by whose steps wait", s.testSenders)
}

// awaitRuling has of each kind one thing wait that is ada's, or of handle a, and one that is
// cleo's, or of handle c.
func awaitRuling(t *testing.T, record *registry.Record) {
	t.Helper()
	if err := record.AddAgent(t.Context(), federationtest.NewAgent("b")); err != nil {
		t.Fatal(err)
	}
	for _, who := range []struct {
		n      int
		did    federation.DID
		handle string
	}{{10, ada, "a"}, {20, cleo, "c"}} {
		n := who.n
		offer := federationtest.File(federationtest.Offer(n, who.did, bob), federation.View{})
		offer.Links = []string{"oftc", "lab"}
		entry := mustAppend(t, record, offer)
		vouched := federationtest.Vouch(federationtest.Offer(n+1, "did:key:zKept", bob), "of "+who.handle)
		vouched.For = who.did
		mustAppend(t, record, federationtest.File(vouched, federation.View{}))
		mustDefer(t, record, deferred(n+2, "lab", federationtest.Offer(n+2, who.did, bob)))
		pending := federation.Pending{Home: "far.example", Event: federationtest.Step(n+3, federationtest.Offer(90, bob, who.did), federation.Accept, who.did), Since: federationtest.At(n)}
		if err := record.KeepPending(t.Context(), pending, 0); err != nil {
			t.Fatal(err)
		}
		steps, err := record.Rows().PendingOf(t.Context(), "lab", entry.Event.Handoff.String(), 1)
		if err != nil || len(steps) != 1 {
			t.Fatal(steps, err)
		}
		err = record.Rows().Settle(t.Context(), "lab", []int64{steps[0].Row}, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, At: federationtest.At(n)})
		if err != nil {
			t.Fatal(err)
		}
		hold(t, record, n+4, who.handle, "b")
		post(t, record, agents.Posting{Message: federationtest.Message(n+5, who.handle, "b")})
		end := federationtest.Message(n+7, who.handle, "b") // of a step by bob
		end.Event, end.Handoff = federationtest.ID(80), federationtest.ID(80)
		if who.handle == "a" {
			mustAppend(t, record, federationtest.File(federationtest.Offer(80, bob, ""), federation.View{}))
			post(t, record, agents.Posting{Message: end})
		}
		r := relay(n+6, "peer.example")
		r.Sender = who.handle
		if err := record.Enqueue(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func (s suite) testPurge(t *testing.T) {
	record := s.open(t)
	awaitRuling(t, record)
	want := federation.Purged{Inbox: 2, Messages: 2, Deferred: 2, Dead: 1, Outbox: 2}
	purge := func(dry bool) federation.Purged {
		t.Helper()
		done, err := record.Purge(t.Context(), []federation.DID{ada, "did:key:zNobody"}, []string{"a"}, federationtest.At(50), dry)
		if err != nil {
			t.Fatalf("Purge: %v", err)
		}
		return done
	}
	for _, dry := range []bool{true, false} {
		if d := diff(want, purge(dry)); d != "" {
			t.Errorf("purge, dry %t (-want +got):\n%s", dry, d)
		}
	}
	if d := diff(federation.Purged{}, purge(false)); d != "" {
		t.Errorf("purge again (-want +got):\n%s", d)
	}
	if n, _, err := record.Waiting(t.Context(), bob); n != 2 || err != nil {
		t.Errorf("%d entries wait for bob, %v, want cleo's 2", n, err)
	}
	entries, err := record.Replay(t.Context(), bob, "", 10)
	if err != nil || len(entries) != 2 || entries[0].Event.ID != federationtest.ID(20) {
		t.Errorf("bob's inbox has %+v, %v", entries, err)
	}
	if steps := log(t, record, federationtest.ID(10)); len(steps) != 1 {
		t.Errorf("ada's handoff has %d steps, want its offer", len(steps))
	}
	if d := diff([]string{"handshake-14 #1", "handshake-24 #2", "message-17 #2", "message-25 #1"}, slices.Sorted(slices.Values(ids(t, record, "b")))); d != "" {
		t.Errorf("messages of b (-want +got):\n%s", d)
	}
	if left, err := record.Purge(t.Context(), []federation.DID{cleo}, []string{"c"}, federationtest.At(50), true); err != nil || diff(want, left) != "" {
		t.Errorf("of cleo is left %+v, %v, want all", left, err)
	}
}

func (s suite) testSenders(t *testing.T) {
	record := s.open(t)
	awaitRuling(t, record)
	got, err := record.Senders(t.Context(), "", 10)
	if d := diff([]federation.DID{"did:key:zKept", ada, bob, cleo}, got); d != "" || err != nil {
		t.Errorf("Senders: %v (-want +got):\n%s", err, d)
	}
	if got, err = record.Senders(t.Context(), ada, 1); len(got) != 1 || got[0] != bob || err != nil {
		t.Errorf("Senders after ada: %v, %v", got, err)
	}
}
