package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// silentParties are hosts that accept and stay silent, one for each kind of peer.
type silentParties struct {
	documents, ircd, registry, home, webhook *silent
}

// tables returns the configuration of a gateway whose peers they are.
func (p silentParties) tables() string {
	return fmt.Sprintf(`[[airc.peers]]
domain = "silent.test"
url = "http://%s"
[[peers]]
name = "home.test"
did = "did:web:home.test"
url = "http://%s"
path = "https"
[irc.client]
listen = "127.0.0.1:0"
[[irc.spanningtree]]
name = "mute"
server_name = "mute.test"
address = %q
sid = "8GW"
send_password_file = "lab.secret"
recv_password_file = "lab.secret"
channels = ["#ops"]
`, p.registry.addr, p.home.addr, p.ircd.addr)
}

// watch opens a stream of a caller's inbox and reads its first bytes.
func (c *caller) watch(t *testing.T) {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(c.request(t, http.MethodGet, "inbox/stream", nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if _, err := response.Body.Read(make([]byte, 1)); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %s, %v", response.Status, err)
	}
}

func TestShutdownTakesTenSecondsWithSilentPeers(t *testing.T) {
	t.Parallel()
	p := silentParties{newSilent(t), newSilent(t), newSilent(t), newSilent(t), newSilent(t)}
	s := newLinkedSquare(t, []string{"alice", "mallory"}, p.tables())
	eliza, scholar := logIn(t, s.url()), logIn(t, s.url())
	scholar.must(t, http.StatusCreated, http.MethodPost, "webhooks", map[string]any{"url": "http://" + p.webhook.addr + "/hook"}, nil)
	scholar.watch(t)
	id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite three sources"})
	scout := bridgetest.NewAgent(s.url(), "scout_7", make([]byte, 32))
	if err := scout.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, answer, err := scout.Send(t.Context(), "amy_1@silent.test", "hello", nil); err != nil || status != http.StatusAccepted {
		t.Fatal(status, answer, err)
	}
	dialSilently(t, s.public, "POST /api/v1/auth/challenge HTTP/1.1\r\nHost: gw.test\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	dialSilently(t, s.public, "GET / HTTP/1.1\r\nHost: gw.test\r\nX-Half: ")
	for range 8 {
		s.offers(t, "mallory", p.documents.signer(t))
	}
	offer := s.offers(t, "mallory", newSilent(t).signer(t))
	await(t, "each peer to be called", func() bool {
		return p.documents.called() > 0 && p.ircd.called() > 0 && p.registry.called() > 0 && p.home.called() > 0 && p.webhook.called() > 0
	})
	await(t, "each step to wait, its lookup still under way", func() bool { return s.deferred(t) == 9 })
	s.stuck.Store(true)
	stopped := time.Now()
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(stopped); took > stopWait {
		t.Errorf("SIGTERM took %s", took)
	}
	if told := s.told(t); !strings.Contains(told, `"msg":"stopped"`) || strings.Contains(told, "shutdown timed out before all work ended") {
		t.Errorf("the gateway did not end in good order")
	}
	s.asks(t, &struct{}{}, "verify") // the record was closed cleanly, or this fails
	s.stuck.Store(false)
	s.start(t)
	var shown struct{ State string }
	if s.asks(t, &shown, "handoff", "show", id); shown.State != "offered" {
		t.Errorf("the handoff is %q, want offered", shown.State)
	}
	await(t, "the steps that waited for keys to wait still", func() bool { return s.deferred(t) == 9 })
	if got := s.outcome(t, offer); got != "deferred" {
		t.Errorf("the step of a silent host is %q, want deferred", got)
	}
}
