package relay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

func (g *gate) checked(now func() time.Time) string {
	var lines []string
	var peers []*relay.Peer
	for _, id := range []federation.HomeID{"a.test", "b.test"} {
		if g.peers[id] != nil {
			peers = append(peers, g.peers[id])
		}
	}
	for _, f := range g.deps.Hub.Check(g.t.Context(), peers, now) {
		lines = append(lines, string(f.State)+" "+f.What+": "+f.Detail)
	}
	return strings.Join(lines, "\n")
}

func TestHubCheckFindsMistakes(t *testing.T) {
	good := newAccountsHub(t, "a.test", "b.test")
	all := newGates(t, "a.test", "b.test")
	meet(t, good, all...)
	all[0].run(all[1])
	got := all[0].checked(time.Now)
	for _, want := range []string{"ok hub: nats://", "ok max_payload", "ok account: a_test", "ok clock", "ok sync_interval: always", "ok streams: 1", "ok from b.test: "} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "warn") || strings.Contains(got, "FAIL") {
		t.Errorf("a good hub is found wrong:\n%s", got)
	}
	late := all[0].checked(func() time.Time { return time.Now().Add(-time.Hour) })
	if !strings.Contains(late, "warn clock: ") {
		t.Errorf("nothing of the clock in:\n%s", late)
	}

	poor := hubServer(t, t.TempDir(), -1)
	defer stopHub(poor)
	others := newGates(t, "a.test", "b.test")
	meet(t, openHub(poor.ClientURL()), others[0])
	others[0].peers["b.test"] = relay.NewPeer(relay.PeerConfig{Home: "b.test", Path: relay.ByRelay, Mode: relay.Allow}, others[0].deps)
	await(t, func() bool { return others[0].deps.Hub.Ready() == nil })
	got = others[0].checked(time.Now)
	for _, want := range []string{"warn max_payload: 1048576", "warn account: shared by all homes", "warn sync_interval: the server does not report it", "FAIL from b.test: no stream: stream not found"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
	stopHub(poor)
	await(t, func() bool { return others[0].deps.Hub.Ready() != nil })
	if got := others[0].checked(time.Now); !strings.HasPrefix(got, "FAIL hub: "+poor.ClientURL()+": dial tcp ") || !strings.HasSuffix(got, "connection refused") {
		t.Errorf("without a hub: %s", got)
	}
}

// await waits for a required event, on a machine however slow.
func await(t *testing.T, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * patience); !there(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}
