package relay_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

func join(t *testing.T, home federation.HomeID, url string) *relay.Relay {
	t.Helper()
	r, err := relay.Join(relay.ServerConfig{URLs: []string{url}}, home, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestWakeReachesOtherGateways(t *testing.T) {
	shared := hubServer(t, t.TempDir(), -1)
	defer stopHub(shared)
	first, second, stranger := join(t, "a.test", shared.ClientURL()), join(t, "a.test", shared.ClientURL()), join(t, "b.test", shared.ClientURL())
	for _, r := range []*relay.Relay{first, second, stranger} {
		await(t, func() bool { return r.Ready() == nil })
	}
	wake, stop := second.Subscribe("scout")
	defer stop()
	other, stopOther := stranger.Subscribe("scout")
	defer stopOther()
	settle(t, second) // the subscription is there
	settle(t, stranger)
	first.Wake("scout")
	if !woken(t, wake) {
		t.Error("the other gateway of the home is not woken")
	}
	settle(t, stranger)
	if len(other) > 0 {
		t.Error("another home at the same server is woken")
	}
}

func TestReceiveMissesNoMessageWhileItIsBusy(t *testing.T) {
	shared := hubServer(t, t.TempDir(), -1)
	defer stopHub(shared)
	first, second := join(t, "a.test", shared.ClientURL()), join(t, "a.test", shared.ClientURL())
	for _, r := range []*relay.Relay{first, second} {
		await(t, func() bool { return r.Ready() == nil })
	}
	const sent, begin = 1000, "begin"
	busy, begun, got := make(chan struct{}), make(chan struct{}, 1), make(chan string, sent)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		second.Receive(ctx, "presence", func(message []byte) {
			if string(message) == begin {
				select {
				case begun <- struct{}{}:
				default:
				}
				return
			}
			<-busy
			got <- string(message)
		})
	}()
	await(t, func() bool {
		first.Publish("presence", []byte(begin))
		return len(begun) > 0
	})
	for n := range sent {
		first.Publish("presence", []byte(strconv.Itoa(n)))
	}
	settle(t, first) // the server has the messages
	settle(t, second)
	close(busy)
	for n := range sent {
		select {
		case message := <-got:
			if message != strconv.Itoa(n) {
				t.Fatalf("message %d is %q", n, message)
			}
		case <-time.After(patience):
			t.Fatalf("message %d is lost", n)
		}
	}
	stop()
	<-ended
}

func TestRelayConnectsOnceItsServerRuns(t *testing.T) {
	t.Parallel()
	port := federationtest.FreePort(t)
	r := join(t, "a.test", "nats://127.0.0.1:"+strconv.Itoa(port))
	if r.Ready() == nil {
		t.Error("a relay without a server is ready")
	}
	wake, stop := r.Subscribe("scout")
	defer stop()
	r.Wake("scout") // and no waiter is woken by that later
	shared := hubServer(t, t.TempDir(), port)
	defer stopHub(shared)
	await(t, func() bool { return r.Ready() == nil })
	settle(t, r)
	if len(wake) > 0 {
		t.Error("a wake-up was kept")
	}
	r.Wake("scout")
	if !woken(t, wake) {
		t.Error("the earlier waiter is not woken")
	}
}

func TestServerTextRefusesUnreadableSeeds(t *testing.T) {
	_, err := relay.Join(relay.ServerConfig{URLs: []string{"nats://127.0.0.1:1"}, NKeyFile: "nowhere"}, "a.test", slog.New(slog.DiscardHandler))
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line", err)
	}
}

// A home with an embedded server has one account there, as the other homes have.
func TestHostLinksOtherHomes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	accounts, seeds := writeAccounts(t, dir, "a.test", "b.test")
	host, err := relay.OpenHost(t.Context(), relay.HostConfig{Listen: "127.0.0.1:0", AccountsFile: accounts, Dir: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	meet(t, hosted{host, seeds}, all...)
	a.run(b)
	b.run(a)
	offer := a.worksWith(b)
	if got := a.log(offer.ID); got != "offer accept" {
		t.Errorf("a has %q", got)
	}

	taken := strings.TrimPrefix(host.URL(), "nats://")
	if _, err := relay.OpenHost(t.Context(), relay.HostConfig{Listen: taken, AccountsFile: accounts, Dir: t.TempDir()}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is taken: %v", err)
	}
}

type hosted struct {
	host  *relay.Host
	seeds map[federation.HomeID]string
}

func (h hosted) config(home federation.HomeID) relay.HubConfig {
	cfg := relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{h.host.URL()}, NKeyFile: h.seeds[home]}}
	if home == "a.test" {
		cfg.URLs, cfg.Host = nil, h.host
	}
	return cfg
}

func TestHostNeedsAccounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.conf")
	for name, text := range map[string]string{"none": "jetstream {}", "no file of a server": "accounts {", "nothing": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := relay.OpenHost(t.Context(), relay.HostConfig{Listen: "127.0.0.1:0", AccountsFile: path, Dir: t.TempDir()}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: it is opened", name)
		}
	}
}

// The configuration also changes existing streams, only at a server of this operator.
func TestStreamsAreUpdatedAtTheStart(t *testing.T) {
	shared := hubServer(t, t.TempDir(), -1)
	defer stopHub(shared)
	conn, err := nats.Connect(shared.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	all := newGates(t, "a.test", "b.test")
	size := func() int64 {
		stream, err := js.Stream(t.Context(), "FED_a_test__b_test")
		if err != nil {
			return 0
		}
		return stream.CachedInfo().Config.MaxBytes
	}
	for _, step := range []struct {
		ours             bool
		maxBytes, become int64
	}{{true, 16 << 20, 16 << 20}, {true, 32 << 20, 32 << 20}, {false, 64 << 20, 32 << 20}} {
		t.Run("", func(t *testing.T) {
			meet(t, ownServer{shared, step.ours, step.maxBytes}, all...)
			await(t, func() bool { return size() == step.become })
			await(t, func() bool { return strings.Contains(all[0].checked(time.Now), "ok from b.test") })
			if got := size(); got != step.become {
				t.Errorf("a stream may grow to %d bytes, want %d", got, step.become)
			}
		})
	}
}

type ownServer struct {
	*server.Server
	ours     bool
	maxBytes int64
}

func (s ownServer) config(federation.HomeID) relay.HubConfig {
	return relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{s.ClientURL()}}, Ours: s.ours, MaxBytes: s.maxBytes}
}
