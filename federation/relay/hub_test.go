package relay_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

func hubServer(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "hub", Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, SyncAlways: true, JetStreamMaxStore: 64 << 20, // a small disk will do
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the hub does not start")
	}
	return s
}

func stopHub(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

type place interface {
	// config returns how a home gets there.
	config(home federation.HomeID) relay.HubConfig
}

// openHub is a server without accounts, by its address.
type openHub string

func (h openHub) config(federation.HomeID) relay.HubConfig {
	return relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{string(h)}}}
}

// meet lets homes reach each other only through a hub.
func meet(t *testing.T, at place, all ...*gate) {
	t.Helper()
	for _, g := range all {
		log := slog.New(slog.DiscardHandler)
		hub, err := relay.OpenHub(at.config(g.id), g.id, log)
		if err != nil {
			t.Fatal(err)
		}
		g.deps.Hub, g.deps.Poster = hub, unreachable{}
		var peers []*relay.Peer
		for _, other := range all {
			if g != other {
				peer := relay.NewPeer(relay.PeerConfig{Home: other.id, URL: "https://nowhere.test", Path: relay.ByRelay, Mode: relay.Allow}, g.deps)
				g.peers[other.id], peers = peer, append(peers, peer)
			}
		}
		handler := g.handler()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { hub.Run(ctx, handler, func() []*relay.Peer { return peers }) })
		t.Cleanup(func() { cancel(); running.Wait(); hub.Close() })
	}
}

func (g *gate) handler() *relay.PeerHandler {
	mux := http.NewServeMux()
	h := &relay.PeerHandler{
		Deps: g.deps, Peer: func(home federation.HomeID) *relay.Peer { return g.peers[home] },
		ClockSkew: func() time.Duration { return time.Minute }, Documents: mux,
	}
	h.Mount(mux)
	return h
}

// unreachable is HTTPS to homes behind walls.
type unreachable struct{}

func (unreachable) Post(context.Context, string, relay.Envelope) (relay.Envelope, error) {
	return relay.Envelope{}, &federation.UnavailableError{What: "home", Err: io.ErrClosedPipe}
}

func (unreachable) Get(context.Context, string) (relay.Envelope, error) {
	return relay.Envelope{}, &federation.UnavailableError{What: "home", Err: io.ErrClosedPipe}
}

func TestHubConnectsHomes(t *testing.T) {
	hub := hubServer(t, t.TempDir(), -1)
	defer stopHub(hub)
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	meet(t, openHub(hub.ClientURL()), all...)
	a.run(b)
	b.run(a)
	offer := a.worksWith(b)
	if got := a.log(offer.ID); got != "offer accept" {
		t.Errorf("a has %q", got)
	}
}

// A hub that comes back with an empty disk has forgotten streams, consumers and all messages in
// flight. The record has not.
func TestHubThatLostItsDiskLosesNothing(t *testing.T) {
	t.Parallel()
	port := federationtest.FreePort(t)
	hub := hubServer(t, t.TempDir(), port)
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	meet(t, openHub("nats://127.0.0.1:"+strconv.Itoa(port)), all...)
	a.run(b)
	_, first := a.take("alice", federation.Offer, to("bob"))
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	stopHub(hub)
	_, second := a.take("alice", federation.Offer, to("bob"))
	if err := a.deliver(b); err == nil {
		t.Error("a row ended without the hub")
	}
	hub = hubServer(t, t.TempDir(), port)
	defer func() { stopHub(hub) }()
	deadline := time.Now().Add(3 * patience)
	for a.deliver(b) != nil {
		if time.Now().After(deadline) {
			t.Fatal("what was owed is still owed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, id := range []federation.HandoffID{first.ID, second.ID} {
		b.comes(id, "offer")
	}
}

func TestOpenHubRefusesUnreadableSecrets(t *testing.T) {
	_, err := relay.OpenHub(relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{"nats://127.0.0.1:1"}, NKeyFile: "nowhere"}}, "a.test", slog.New(slog.DiscardHandler))
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line", err)
	}
	hub, err := relay.OpenHub(relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{"nats://127.0.0.1:1"}}}, "a.test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	if hub.Ready() == nil {
		t.Error("a hub that is away is ready")
	}
}
