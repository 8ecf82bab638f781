package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
)

// homeLink is a link to another home that exchanges nothing.
type homeLink struct {
	server.Unrouted

	home    federation.HomeID
	blocked bool
	moved   []federation.DID
}

func (l *homeLink) Name() string            { return string(l.home) }
func (l *homeLink) Home() federation.HomeID { return l.home }
func (l *homeLink) Blocked() bool           { return l.blocked }
func (l *homeLink) Known() federation.KnownHome {
	return federation.KnownHome{Home: l.home, URL: "https://" + string(l.home)}
}

func (l *homeLink) Houses(context.Context, federation.DID) (bool, error) { return true, nil }

func (l *homeLink) Move(_ context.Context, did federation.DID) error {
	l.moved = append(l.moved, did)
	return nil
}

func (*homeLink) ReportMisbehavior(context.Context, federation.MisbehaviorKind, string) {}

func TestHomesAreThoseWithRunningLinks(t *testing.T) {
	t.Parallel()
	links := server.NewLinkSet(server.LinkDeps{
		RunExclusive: leases{"homes", "link unrouted"}.run, Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler), PubSub: noWakes{},
	})
	ended, end := context.WithCancel(t.Context())
	end()
	b := &homeLink{home: "b.example", blocked: true}
	links.Apply(ended, []server.Entry{{Link: b}, {Link: server.Unrouted{}}})
	homes := server.HomeLinks{Links: links}
	if all := slices.Collect(homes.All()); len(all) != 1 || all[0].Home != "b.example" || all[0].URL != "https://b.example" || !all[0].Blocked {
		t.Errorf("all are %+v", all)
	}
	if err := homes.Give(t.Context(), "b.example", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"); err != nil || len(b.moved) != 1 {
		t.Errorf("b was given %v: %v", b.moved, err)
	}
	if _, ok := homes.Peer("c.example"); ok {
		t.Error("a home without a link is a peer")
	}
	if err := homes.Give(t.Context(), "c.example", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"); !errors.As(err, new(*federation.UnavailableError)) {
		t.Errorf("a home without a link: %v", err)
	}
}

func TestBlockErrorIsReturnedToTheOperator(t *testing.T) {
	t.Parallel()
	problem := bridge.ProblemOf(&server.BlockError{Why: "it is the home itself"})
	if problem.Status != http.StatusBadRequest || problem.Code != bridge.CodeUsage || problem.Detail != "it is the home itself" {
		t.Errorf("got %+v", problem)
	}
}

func TestPeerModeSurvivesAReload(t *testing.T) {
	t.Parallel()
	file, err := configs.Parse(filepath.Join(t.TempDir(), "baton.toml"), `[home]
name = 'gw.test'
[http]
listen = ''
[admin]
listen = ''
socket = ''
[[peers]]
name = 'p0.test'
did = 'did:web:p0.test'
url = 'https://p0.test'
`)
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := server.NewStill(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gateway.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := gateway.ApplyAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if blocked, err := gateway.BlockHome(t.Context(), "p0.test"); err != nil || !blocked {
		t.Errorf("the link that runs is blocked: %t (%v)", blocked, err)
	}
}
