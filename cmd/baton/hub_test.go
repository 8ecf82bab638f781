package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// startHub runs a NATS server with streams and without accounts until the test ends.
func startHub(t *testing.T) *server.Server {
	t.Helper()
	hub, err := server.NewServer(&server.Options{
		ServerName: "hub", Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	hub.Start()
	t.Cleanup(func() { hub.Shutdown(); hub.WaitForShutdown() })
	if !hub.ReadyForConnections(patience) {
		t.Fatal("the hub does not start")
	}
	return hub
}

// newMeeting starts two homes that meet as a table says.
func newMeeting(t *testing.T, table string) (a, b neighbour) {
	t.Helper()
	all := newNeighbours(t, "a.test", "b.test")
	for _, n := range all {
		n.settle(t, all, table)
		n.start(t)
	}
	for _, n := range all {
		n.ready(t)
	}
	return all[0], all[1]
}

// takesOn has a person at one home accept an offer of a person at another home, and returns
// the handoff and the key of the assignee.
func takesOn(t *testing.T, a, b neighbour, title string) (id, bob string) {
	t.Helper()
	alice, _ := a.key(t, 1)
	bob, _ = b.key(t, 2)
	scout := resident(t, b.house, "scout_7", 2)
	id = a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", title)
	agree(t, id, "offer", a, b)
	b.must(t, "handoff", "accept", id, "--key-file", bob)
	agree(t, id, "offer accept", a, b)
	return id, bob
}

func TestHubConnectsHomes(t *testing.T) {
	t.Parallel()
	hub := startHub(t)
	a, b := newMeeting(t, fmt.Sprintf("[relay.hub]\nurls = [%q]\n", hub.ClientURL()))
	conn, err := nats.Connect(hub.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	streams := []string{"FED_b_test__a_test", "FED_a_test__b_test"}
	for _, name := range streams {
		await(t, name+" to be read", func() bool { _, err := js.Consumer(t.Context(), name, "home"); return err == nil })
	}
	id, bob := takesOn(t, a, b, "Through the hub")
	b.must(t, "handoff", "complete", id, "--key-file", bob)
	agree(t, id, "offer accept complete", a, b)
	if out := b.must(t, "relay", "check"); !strings.Contains(out, "from a.test") || !strings.Contains(out, "shared by all homes") {
		t.Errorf("relay check: %s", out)
	}
	for _, name := range streams {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Errorf("stream %s: %v", name, err)
			continue
		}
		if carried := stream.CachedInfo().State.LastSeq; carried < 2 { // the two steps that follow the offer, or their answers
			t.Errorf("stream %s carried %d messages", name, carried)
		}
	}
}

// Homes of one operator share a cluster, which wakes the waiters of each home, and meet
// there.
func TestHubOfTrustingHomesIsShared(t *testing.T) {
	t.Parallel()
	shared := startHub(t)
	a, b := newMeeting(t, fmt.Sprintf("[relay]\nurls = [%q]\nmax_bytes = 8388608\n", shared.ClientURL()))
	for _, n := range []neighbour{a, b} {
		await(t, n.name+" to warn", func() bool { return strings.Contains(n.told(t), "the hub has no accounts") })
		if out := n.must(t, "relay", "check"); !strings.Contains(out, shared.ClientURL()) {
			t.Errorf("relay check: %s", out)
		}
	}
	takesOn(t, a, b, "Through our own")
	if got := maxBytes(t, shared.ClientURL(), "FED_b_test__a_test"); got != 8388608 {
		t.Errorf("a stream may grow to %d bytes", got)
	}
}

// maxBytes returns how large a stream may grow.
func maxBytes(t *testing.T, url, name string, options ...nats.Option) int64 {
	t.Helper()
	conn, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config.MaxBytes
}

// One home has the server in itself, and the other links to it with the seed that it was
// given, over TLS.
func TestHubServesAnotherOperatorsHome(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	listen, cert := federationtest.FreeAddr(t), certify(t, a.house, "localhost")
	out, ok := a.baton(t, "relay", "accounts", "a.test", "b.test", "--out", filepath.Join(a.dir, "data", "relay"))
	if !ok {
		t.Fatal(out)
	}
	seed, err := os.ReadFile(filepath.Join(a.dir, "data", "relay", "b.test.nk"))
	if err != nil {
		t.Fatal(err)
	}
	b.keep(t, "hub.nk", strings.TrimSpace(string(seed)))
	a.settle(t, all, fmt.Sprintf("[relay]\nlisten = %q\nmax_bytes = 8388608\n[tls]\ncert_file = %q\nkey_file = %q\n", listen, cert.certFile, cert.keyFile))
	b.settle(t, all, fmt.Sprintf("[relay.hub]\nurls = [%q]\nnkey_file = \"hub.nk\"\nca_file = %q\n", "tls://"+strings.Replace(listen, "127.0.0.1", "localhost", 1), cert.certFile))
	for _, n := range all {
		n.start(t)
	}
	for _, n := range all {
		n.ready(t)
	}
	takesOn(t, a, b, "At your place")
	for _, n := range all {
		await(t, n.name+" to find nothing wrong", func() bool {
			out := n.must(t, "relay", "check")
			return !strings.Contains(out, "warn") && strings.Contains(out, "from ")
		})
	}
	if strings.Contains(a.told(t)+b.told(t), "has no accounts") {
		t.Error("it is warned of a server with accounts")
	}
}

func TestHubForOthersNeedsAccounts(t *testing.T) {
	h := newHouse(t, "[relay]\nlisten = '127.0.0.1:4222'\n")
	n := neighbour{h, "gw.test"}
	out, ok := n.baton(t, "config", "check", h.config)
	if ok || !strings.Contains(out, "relay.listen: want accounts: baton relay accounts gw.test NAME... --out ") {
		t.Errorf("it is told: %s", out)
	}
}
