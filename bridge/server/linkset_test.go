package server_test

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// version is a [server.Source].
type version int

// Same implements [server.Source].
func (v version) Same(other server.Source) bool { return v == other }

// fakeLink is a [bridge.Link] which is up while it runs, and carries each
// step.
type fakeLink struct {
	name string
	runs atomic.Int32 // started sessions
	live atomic.Int32 // that run now
}

func (l *fakeLink) Name() string  { return l.name }
func (*fakeLink) Network() string { return "lab" }

func (*fakeLink) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return true, nil
}

func (l *fakeLink) Run(ctx context.Context, up func()) error {
	l.runs.Add(1)
	l.live.Add(1)
	defer l.live.Add(-1)
	up()
	<-ctx.Done()
	return context.Cause(ctx)
}

func (*fakeLink) Deliver(context.Context, federation.Delivery) error { return nil }

type leases []string

// run runs a job that needs a lease.
func (l leases) run(ctx context.Context, lease string, do func(context.Context)) error {
	if slices.Contains(l, lease) {
		do(ctx)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// newLinkSet returns a set of a replica with some leases.
func newLinkSet(t *testing.T, ours leases) *server.LinkSet {
	t.Helper()
	return server.NewLinkSet(server.LinkDeps{
		Outbox: storetest.Open(t).Rows(), RunExclusive: ours.run, PubSub: noWakes{},
		Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	})
}

func TestLinkSetKeepsUnchangedLinksAtAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newLinkSet(t, leases{"link kept", "link changed", "link gone", "link fresh"})
		kept, changed, gone := &fakeLink{name: "kept"}, &fakeLink{name: "changed"}, &fakeLink{name: "gone"}
		set.Apply(t.Context(), []server.Entry{{Link: kept, Source: version(1)}, {Link: changed, Source: version(1)}, {Link: gone, Source: version(1)}})
		synctest.Wait()
		again, other, fresh := &fakeLink{name: "kept"}, &fakeLink{name: "changed"}, &fakeLink{name: "fresh"}
		set.Apply(t.Context(), []server.Entry{{Link: again, Source: version(1)}, {Link: other, Source: version(2)}, {Link: fresh, Source: version(1)}})
		synctest.Wait()
		live := map[string]int32{}
		for name, link := range map[string]*fakeLink{"kept": kept, "its copy": again, "changed": changed, "in its place": other, "gone": gone, "fresh": fresh} {
			live[name] = link.live.Load()
		}
		want := map[string]int32{"kept": 1, "its copy": 0, "changed": 0, "in its place": 1, "gone": 0, "fresh": 1}
		if diff := cmp.Diff(want, live); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		if n := kept.runs.Load(); n != 1 {
			t.Errorf("the link that was kept began %d sessions", n)
		}
		if down := set.Down(); len(down) > 0 {
			t.Errorf("down are %q", down)
		}
		set.Stop()
		if kept.live.Load()+other.live.Load()+fresh.live.Load() != 0 {
			t.Error("links run after Stop")
		}
	})
}

func TestLinkSetShowsLinksOfReplicasAsStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newLinkSet(t, nil)
		lab := &fakeLink{name: "lab"}
		set.Apply(t.Context(), []server.Entry{{Link: lab}})
		defer set.Stop()
		synctest.Wait()
		if down := set.Down(); !slices.Equal(down, []string{"lab"}) {
			t.Errorf("at the start are down %q, want the link: its lease may still come", down)
		}
		time.Sleep(4 * time.Second)
		if status := set.Statuses()[0].Status; status.State != bridge.LinkStandby || lab.runs.Load() > 0 {
			t.Errorf("the link is %s after %d sessions, want standby", status.State, lab.runs.Load())
		}
		if down := set.Down(); len(down) > 0 {
			t.Errorf("down are %q, want none: another replica runs the link", down)
		}
	})
}

func TestLinkSetRoutesStepsToHomesAndLinks(t *testing.T) {
	t.Parallel()
	const alice, bob = federation.DID("did:key:alice"), federation.DID("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
	record := storetest.Open(t)
	if err := record.KeepMailboxLocation(t.Context(), federation.MailboxLocation{DID: bob, Home: "b.test", Source: federation.LocatedByStep, Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	g := newGateway(record)
	ctx, end := context.WithCancel(t.Context())
	g.Links().Apply(ctx, []server.Entry{{Link: &fakeLink{name: "lab"}}, {Link: &homeLink{home: "b.test"}}, {Link: &homeLink{home: "c.test"}}})
	defer g.Links().Stop()
	defer end()
	to, err := g.Route(t.Context(), federation.Event{Verb: federation.Offer, From: alice}, federation.View{Home: "gw.test", Offerer: alice, Offeree: bob})
	if err != nil || !slices.Equal(to.Links, []string{"lab", "b.test"}) {
		t.Errorf("delivered to %q, %v; want lab, and the one home that has a mailbox", to.Links, err)
	}
}
