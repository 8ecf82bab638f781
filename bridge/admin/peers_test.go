package admin_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// A home and a registry have one name: their pending deliveries are told apart, and
// the proofs are those against the home.
func TestPeerShowsItsBacklogAndHistory(t *testing.T) {
	const name = "b.example"
	h := newHouse(t)
	h.peers = []admin.Peer{
		{Name: name, Network: "home", Mode: "allow", PeerHome: &admin.PeerHome{Path: "https", SkewSeconds: 1.5}},
		{Name: name, Network: agents.Link, Mode: "limit"},
	}
	f := federationtest.File(federationtest.Offer(1, ann, ben), federation.View{})
	f.Links = []string{name}
	if _, err := h.record.Append(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := h.record.Rows().Failed(t.Context(), name, 1, federation.Failure{Reason: "not reached", At: federationtest.At(2), Next: federationtest.At(3)}); err != nil {
		t.Fatal(err)
	}
	owed := federation.PeerDelivery{Peer: name, Sender: "scout", Message: "m1", OrderKey: "scout amy", Document: []byte("{}"), Queued: federationtest.At(4)}
	if err := h.record.Enqueue(t.Context(), owed); err != nil {
		t.Fatal(err)
	}
	fork := federation.Fork{Home: name, Handoff: federationtest.ID(1), Version: 2, Found: federationtest.At(5)}
	for _, ruling := range []*federation.Ruling{&fork.First, &fork.Second} {
		*ruling = federation.Ruling{Home: name, Handoff: fork.Handoff, Event: federationtest.ID(2), Version: 2, Filed: time.Now(), Document: "x", Signature: "s"}
	}
	if err := h.record.KeepFork(t.Context(), fork); err != nil {
		t.Fatal(err)
	}
	doubt := federation.Misbehavior{Home: name, Kind: federation.MisbehaviorVoice, Last: federationtest.At(6), Why: "in the name of ann"}
	if err := h.record.KeepMisbehavior(t.Context(), doubt); err != nil {
		t.Fatal(err)
	}
	want := []admin.Peer{
		{
			Name: name, Network: agents.Link, Mode: "limit", Waiting: 1, Oldest: admin.Moment(federationtest.At(4)),
		}, {
			Name: name, Network: "home", Mode: "allow", Waiting: 1, Oldest: admin.Moment(f.Filed), LastError: "not reached",
			PeerHome: &admin.PeerHome{Path: "https", SkewSeconds: 1.5, Forks: []admin.Fork{{Handoff: fork.Handoff, Version: 2, Found: admin.Moment(fork.Found)}}, Doubts: []admin.Doubt{
				{Kind: doubt.Kind, Times: 1, First: admin.Moment(doubt.Last), Last: admin.Moment(doubt.Last), Why: doubt.Why},
			}},
		},
	}
	status, body := h.ask(t, "GET", "peers", "")
	var page admin.Page[admin.Peer]
	if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 {
		t.Fatalf("%d: %s (%v)", status, body, err)
	}
	sameMoment := cmp.Comparer(func(a, b admin.Moment) bool { return a.String() == b.String() })
	if d := cmp.Diff(want, page.Items, sameMoment); d != "" {
		t.Errorf("peers (-want +got):\n%s", d)
	}
}
