package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestHomesMeetAtAHub(t *testing.T) {
	t.Parallel()
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
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.settle(t, all, fmt.Sprintf("[relay.hub]\nurls = [%q]\n", hub.ClientURL()))
		n.start(t)
	}
	for _, n := range all {
		n.ready(t)
	}
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
		await(t, name+" to be made", func() bool { _, err := js.Stream(t.Context(), name); return err == nil })
	}
	alice, _ := a.key(t, 1)
	bob, _ := b.key(t, 2)
	scout := resident(t, b.house, "scout_7", 2)
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", "Through the hub")
	agree(t, id, "offer", all...)
	b.must(t, "handoff", "accept", id, "--key-file", bob)
	b.must(t, "handoff", "complete", id, "--key-file", bob)
	agree(t, id, "offer accept complete", all...)
	if out := b.must(t, "relay", "check"); !strings.Contains(out, "from a.test") || !strings.Contains(out, "one for all") {
		t.Errorf("relay check: %s", out)
	}
	for _, name := range streams {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Errorf("stream %s: %v", name, err)
			continue
		}
		if carried := stream.CachedInfo().State.LastSeq; carried < 3 { // the offer or its answer, and one more for each step that follows
			t.Errorf("stream %s carried %d messages", name, carried)
		}
	}
}
