package routing_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func offered(t *testing.T, record *registry.Record, n int, to federation.DID, links ...string) {
	t.Helper()
	f := federationtest.File(federationtest.Offer(n, alice, to), federation.View{})
	f.Links = links
	if _, err := record.Append(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func TestRerouteFollowsChangesOfHomes(t *testing.T) {
	t.Parallel()
	const (
		web      = federation.DID("did:web:gone.test:bob")
		stranger = federation.DID("did:key:stranger")
	)
	for name, test := range map[string]struct {
		world func(w *world)
		to    federation.DID
		links []string
		want  []string // names of the outboxes afterwards
	}{
		"the home of a recipient is gone":          {func(w *world) { w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "gone.test"} }, bob, []string{"gone.test"}, []string{routing.Unrouted}},
		"the home above a did:web is gone":         {func(*world) {}, web, []string{"gone.test"}, []string{routing.Unrouted}},
		"an offer to anyone for a home":            {func(w *world) { w.locations[alice] = federation.MailboxLocation{DID: alice, Home: "gone.test"} }, "", []string{"gone.test"}, []string{"gone.test"}},
		"the home is a peer":                       {func(w *world) { w.locations[bob] = federation.MailboxLocation{DID: bob, Home: "b.test"} }, bob, []string{"b.test"}, []string{"b.test"}},
		"the link of another network is gone":      {func(w *world) { w.agents[bob] = true }, bob, []string{"oftc"}, []string{"oftc"}},
		"a reader without a location":              {func(*world) {}, stranger, nil, []string{routing.Unrouted}},
		"a reader here":                            {func(w *world) { w.agents[stranger] = true }, stranger, nil, nil},
		"a reader without a location, and no peer": {func(w *world) { w.peers = nil }, stranger, nil, nil},
	} {
		w, record := newWorld(), storetest.Open(t)
		test.world(w)
		offered(t, record, 1, test.to, test.links...)
		locator := routing.New(routing.Config{Home: self, Record: w, Outboxes: record, Peers: w, Documents: w, Log: slog.New(slog.DiscardHandler)})
		for _, again := range []bool{false, true} {
			moved, err := locator.Reroute(t.Context(), now)
			if changes := !slices.Equal(test.links, test.want); err != nil || (moved > 0) != (changes && !again) {
				t.Errorf("%s: moved %d, %v", name, moved, err)
			}
		}
		if names, err := record.OutboxNames(t.Context()); err != nil || !slices.Equal(names, test.want) {
			t.Errorf("%s: deliveries are in %q (%v), want %q", name, names, err, test.want)
		}
	}
}
