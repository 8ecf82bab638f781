package relay_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

type clusterHub struct {
	servers []*server.Server
	urls    []string
	seeds   map[federation.HomeID]string // files
}

func (h *clusterHub) config(home federation.HomeID) relay.HubConfig {
	return relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: h.urls, NKeyFile: h.seeds[home]}, Replicas: 3}
}

func newClusterHub(t *testing.T, homes ...federation.HomeID) *clusterHub {
	t.Helper()
	layout := relay.HubLayout{Replicas: 3, Secret: "SECRETOFTHECLUSTER"}
	hub := &clusterHub{}
	for _, name := range []string{"hub-1", "hub-2", "hub-3"} {
		s := relay.HubServer{Name: name, Host: "127.0.0.1", Port: federationtest.FreePortPair(t, relay.RouteOffset)}
		layout.Servers, hub.urls = append(layout.Servers, s), append(hub.urls, "nats://"+s.Address())
	}
	dir := t.TempDir()
	var accounts []relay.Account
	accounts, hub.seeds = newAccounts(t, dir, homes...)
	files, err := relay.WriteAccounts(accounts, layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		if err := os.WriteFile(path, []byte(file.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		options, err := server.ProcessConfigFile(path)
		if err != nil {
			t.Fatal(err)
		}
		options.Host, options.Cluster.Host, options.StoreDir, options.NoSigs, options.NoLog = "127.0.0.1", "127.0.0.1", t.TempDir(), true, true
		s, err := server.NewServer(options)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { stopHub(s) })
		if !s.ReadyForConnections(patience) {
			t.Fatalf("%s does not start", file.Name)
		}
		hub.servers = append(hub.servers, s)
	}
	return hub
}

// Three operators meet at three servers. Each stream has a copy on each server, within the
// limits of the accounts, so that the homes go on when a server stops.
func TestHubOfThreeServersSurvivesOneLoss(t *testing.T) {
	t.Parallel()
	hub := newClusterHub(t, "a.test", "b.test", "c.test")
	all := newGates(t, "a.test", "b.test", "c.test")
	meet(t, hub, all...)
	a, b := all[0], all[1]
	a.run(b)
	b.run(a)
	a.worksWith(b)
	for _, g := range all {
		for _, other := range all {
			if g != other {
				hub.copies(t, g.id, other.id)
			}
		}
	}
	stopHub(hub.servers[0])
	_, offer := a.take("alice", federation.Offer, to("bob"))
	deadline := time.Now().Add(6 * patience)
	for a.deliver(b) != nil {
		if time.Now().After(deadline) {
			t.Fatal("two servers of three deliver nothing")
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.comes(offer.ID, "offer")
}

// copies waits until the stream from one home to another has three copies.
func (h *clusterHub) copies(t *testing.T, to, from federation.HomeID) {
	t.Helper()
	key, err := nats.NkeyOptionFromSeed(h.seeds[to])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(h.urls[0], key, nats.CustomInboxPrefix("_INBOX."+nameOf(to)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(6 * patience)
	for {
		stream, err := js.Stream(t.Context(), "FED_"+nameOf(to)+"__"+nameOf(from))
		if err == nil {
			if got := stream.CachedInfo().Config.Replicas; got != 3 {
				t.Errorf("the stream from %s to %s has %d copies", from, to, got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the stream from %s to %s: %v", from, to, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestHubServersHaveDistinctNames(t *testing.T) {
	t.Parallel()
	accounts, _ := newAccounts(t, t.TempDir(), "a.test", "b.test")
	three := func(change func(l *relay.HubLayout)) relay.HubLayout {
		l := relay.HubLayout{Replicas: 3, Secret: "S", Servers: []relay.HubServer{{Name: "a", Host: "a"}, {Name: "b", Host: "b"}, {Name: "c", Host: "c"}}}
		change(&l)
		return l
	}
	if _, err := relay.WriteAccounts(accounts, three(func(*relay.HubLayout) {})); err != nil {
		t.Fatal(err)
	}
	for name, layout := range map[string]relay.HubLayout{
		"copies on one server": {Replicas: 3},
		"two servers":          three(func(l *relay.HubLayout) { l.Servers = l.Servers[:2]; l.Replicas = 1 }),
		"too many copies":      three(func(l *relay.HubLayout) { l.Replicas = 6 }),
		"the same name":        three(func(l *relay.HubLayout) { l.Servers[1].Name = "a" }),
		"a folder":             three(func(l *relay.HubLayout) { l.Servers[1].Name = "../b" }),
		"a quote in a host":    three(func(l *relay.HubLayout) { l.Servers[1].Host = `b" }` }),
		"no host":              three(func(l *relay.HubLayout) { l.Servers[1].Host = "" }),
		"a port without room":  three(func(l *relay.HubLayout) { l.Servers[1].Port = 65000 }),
		"no secret":            three(func(l *relay.HubLayout) { l.Secret = "" }),
	} {
		if files, err := relay.WriteAccounts(accounts, layout); err == nil {
			t.Errorf("%s: got\n%s", name, files[0].Text)
		}
	}
}
