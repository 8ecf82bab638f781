package peering_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/peering"
)

// gateway is the links, the record and the steps of a home in memory. It implements the
// ports of [peering.Peering] and of [peering.Canary].
type gateway struct {
	steps
	links    map[string]peering.Link
	known    []federation.KnownHome
	others   []string // registries
	relinked int
	failing  error // of Relink
	told     int   // replicas
	forgot   []federation.DID
}

func newGateway() *gateway { return &gateway{links: map[string]peering.Link{}} }

func (g *gateway) KeepHome(_ context.Context, h federation.KnownHome) error {
	g.known = append(slices.DeleteFunc(g.known, func(k federation.KnownHome) bool { return k.Home == h.Home }), h)
	return nil
}

func (g *gateway) ForgetHome(_ context.Context, home federation.HomeID) error {
	g.known = slices.DeleteFunc(g.known, func(k federation.KnownHome) bool { return k.Home == home })
	return nil
}

func (g *gateway) KnownHomes(context.Context) ([]federation.KnownHome, error) {
	return slices.Clone(g.known), nil
}

func (g *gateway) Link(name string) (peering.Link, bool) {
	link, ok := g.links[name]
	return link, ok
}

func (g *gateway) Added() []federation.KnownHome {
	var added []federation.KnownHome
	for name, link := range g.links {
		if link.Added {
			added = append(added, federation.KnownHome{Home: federation.HomeID(name), URL: link.URL, Path: "https"})
		}
	}
	return added
}

func (g *gateway) IsPeer(name string) bool {
	return g.links[name].Home || slices.Contains(g.others, name)
}

func (g *gateway) Relink(context.Context) error {
	g.relinked++
	for name, link := range g.links {
		if link.Added {
			delete(g.links, name)
		}
	}
	for _, k := range g.known {
		g.links[string(k.Home)] = peering.Link{Home: true, URL: k.URL, Added: true, Up: true}
	}
	return g.failing
}

func (g *gateway) ForgetKeys(did federation.DID) { g.forgot = append(g.forgot, did) }

func (g *gateway) TellReplicas() { g.told++ }

func (g *gateway) config() peering.Config {
	return peering.Config{
		Home: "a.test", Path: "https", Batch: federation.HomeLimits{Steps: 256, Bytes: 2 << 20},
		ClockSkew: func() time.Duration { return time.Minute },
		Fetch:     identity.FetchConfig{AllowPrivate: true}, Record: g, Links: g, Canary: g.canary(),
	}
}

// run returns a peering that runs until the test ends.
func (g *gateway) run(t *testing.T, cfg peering.Config) *peering.Peering {
	t.Helper()
	p := peering.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return p
}

func reasonOf(err error) peering.Reason {
	if refused, ok := errors.AsType[*peering.RequestError](err); ok {
		return refused.Reason
	}
	return ""
}

func TestAddLinksAHomeAndSendsACanary(t *testing.T) {
	t.Parallel()
	g, other := newGateway(), newOther(t)
	p := g.run(t, g.config())
	added, err := p.Add(t.Context(), peering.Request{URL: other.URL, AllowPrivate: true, DryRun: true})
	if err != nil || len(added.Findings) != 7 || len(g.known) > 0 || g.relinked > 0 {
		t.Errorf("a dry run: %+v, %v", added, err)
	}
	for range 2 { // the second time it is known already
		added, err = p.Add(t.Context(), peering.Request{URL: other.URL, AllowPrivate: true})
		if err != nil || added.Canary == nil || !added.Canary.Green {
			t.Fatalf("got %+v, %v", added, err)
		}
	}
	home := other.profile.Home
	if len(g.known) != 1 || g.known[0].Home != home || g.known[0].URL != other.URL || g.known[0].Path != "https" {
		t.Errorf("on record: %+v", g.known)
	}
	if g.relinked != 2 || g.told != 2 || !slices.Contains(g.forgot, home.DID()) {
		t.Errorf("relinked %d times, replicas told %d times, forgot the keys of %v", g.relinked, g.told, g.forgot)
	}
}

func TestAddLeavesNothingAfterAFailure(t *testing.T) {
	t.Parallel()
	other := newOther(t)
	secure := strings.Replace(other.URL, "http:", "https:", 1)
	for name, test := range map[string]struct {
		change func(cfg *peering.Config, ask *peering.Request)
		want   peering.Reason
	}{
		"an address with a path":            {func(_ *peering.Config, ask *peering.Request) { ask.URL += "/path" }, peering.Malformed},
		"plain HTTP without a word":         {func(_ *peering.Config, ask *peering.Request) { ask.AllowPrivate = false }, peering.Malformed},
		"private, which the file forbids":   {func(cfg *peering.Config, _ *peering.Request) { cfg.Fetch.AllowPrivate = false }, peering.Malformed},
		"an address that does not answer":   {func(_ *peering.Config, ask *peering.Request) { ask.URL = secure }, peering.Unreachable},
		"a home with this home's name":      {func(cfg *peering.Config, _ *peering.Request) { cfg.Home = other.profile.Home }, peering.Conflict},
		"a home that takes smaller batches": {func(cfg *peering.Config, _ *peering.Request) { cfg.Batch.Steps++ }, peering.Conflict},
	} {
		g := newGateway()
		cfg, ask := g.config(), peering.Request{URL: other.URL, AllowPrivate: true}
		test.change(&cfg, &ask)
		_, err := g.run(t, cfg).Add(t.Context(), ask)
		if got := reasonOf(err); got != test.want || len(g.known) > 0 || g.relinked > 0 {
			t.Errorf("%s: %q (%v), on record %v", name, got, err, g.known)
		}
	}
}

func TestAddSendsNoCanaryWithoutALink(t *testing.T) {
	t.Parallel()
	g, other := newGateway(), newOther(t)
	g.failing = errors.New("it is in the configuration")
	added, err := g.run(t, g.config()).Add(t.Context(), peering.Request{URL: other.URL, AllowPrivate: true})
	if !errors.Is(err, g.failing) || added.Canary != nil || len(g.submitted) > 0 || g.told != 1 {
		t.Errorf("got %+v, %v", added, err)
	}
}

func TestRemoveRefusesConfiguredHomes(t *testing.T) {
	t.Parallel()
	g := newGateway()
	g.links["c.test"], g.others = peering.Link{Home: true}, []string{"registry.test"}
	g.known = []federation.KnownHome{{Home: "b.test", URL: "https://b.test"}}
	p := g.run(t, g.config())
	for name, want := range map[string]peering.Reason{"c.test": peering.Conflict, "registry.test": peering.Conflict, "d.test": peering.Unknown} {
		if _, err := p.Remove(t.Context(), name, false); reasonOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if gone, err := p.Remove(t.Context(), "b.test", true); err != nil || gone.URL != "https://b.test" || len(g.known) != 1 {
		t.Errorf("a dry run: %+v, %v", gone, err)
	}
	if gone, err := p.Remove(t.Context(), "b.test", false); err != nil || gone.URL != "https://b.test" || len(g.known) > 0 || g.relinked != 1 || g.told != 1 {
		t.Errorf("got %+v, %v; on record %v", gone, err, g.known)
	}
}

func TestTakeUpLinksHomesAddedByReplicas(t *testing.T) {
	t.Parallel()
	g := newGateway()
	p := g.run(t, g.config())
	for _, step := range []struct {
		name     string
		known    []federation.KnownHome
		relinked int
	}{
		{"nothing changed", nil, 0},
		{"two were added", []federation.KnownHome{{Home: "c.test", URL: "https://c.test", Path: "https"}, {Home: "b.test", URL: "https://b.test", Path: "https"}}, 1},
		{"the same in another order", []federation.KnownHome{{Home: "b.test", URL: "https://b.test", Path: "https"}, {Home: "c.test", URL: "https://c.test", Path: "https"}}, 1},
		{"one has another address", []federation.KnownHome{{Home: "b.test", URL: "https://new.test", Path: "https"}, {Home: "c.test", URL: "https://c.test", Path: "https"}}, 2},
		{"one was removed", []federation.KnownHome{{Home: "c.test", URL: "https://c.test", Path: "https"}}, 3},
	} {
		g.known = step.known
		if err := p.TakeUp(t.Context()); err != nil || g.relinked != step.relinked {
			t.Errorf("%s: relinked %d times (%v), want %d", step.name, g.relinked, err, step.relinked)
		}
	}
}

func TestTakeUpLinksNothingAtShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		p := peering.New(g.config())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Run(ctx)
		g.known = []federation.KnownHome{{Home: "b.test"}}
		_, err := p.Remove(t.Context(), "b.test", false)
		if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
			t.Errorf("got %v", err)
		}
	})
}

func TestTakeUpSkipsConfiguredHomes(t *testing.T) {
	t.Parallel()
	known := []federation.KnownHome{{Home: "b.test"}, {Home: "c.test"}}
	free, err := peering.Linkable(known, func(name string) bool { return name == "b.test" })
	if err == nil || !strings.Contains(err.Error(), "b.test is in the configuration, and was added") || len(free) != 1 || free[0].Home != "c.test" {
		t.Errorf("got %v, %v", free, err)
	}
	if free, err = peering.Linkable(known, func(string) bool { return false }); err != nil || len(free) != 2 {
		t.Errorf("got %v, %v", free, err)
	}
}
