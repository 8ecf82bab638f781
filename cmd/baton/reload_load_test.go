//go:build interop

package main_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// rewrite replaces a part of the configuration.
func (h *house) rewrite(t *testing.T, old, by string) {
	t.Helper()
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("the configuration has no %q", old)
	}
	if err := os.WriteFile(h.config, []byte(strings.Replace(string(text), old, by, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// stream opens the stream of a caller's inbox, and returns its lines. The channel is closed
// when the stream ends.
func (c *caller) stream(t *testing.T) <-chan string {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(c.request(t, http.MethodGet, "inbox/stream", nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := make(chan string, 10_000)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			if data, ok := strings.CutPrefix(scanner.Text(), "data:"); ok {
				lines <- data
			}
		}
	}()
	return lines
}

// anyLoad lets one DID offer as much to another one as a fast machine can.
const anyLoad = "open_handoffs_per_did = 100000\ninbox_events = 100000\ninbox_events_per_sender = 100000\n"

func TestReloadUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	address := federationtest.FreeAddr(t)
	sq := newSquare(t, []string{"alice"}, fmt.Sprintf("[irc.client]\nlisten = %q\nchannels = [%q]\n%s", address, channel, anyRate+anyLoad+"max_hops = 2\n"))
	s := &homeServer{house: sq.house, irc: address}
	eliza := newPerson(t)
	client := s.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, client)
	scholar, sender := logIn(t, s.url()), logIn(t, s.url())
	stream := scholar.stream(t)

	var stop atomic.Bool
	posted := make(chan []string)
	go func() {
		var ids []string
		defer func() { posted <- ids }() // of a caller that failed too
		for i := 0; !stop.Load(); i++ {
			ids = append(ids, sender.offer(t, map[string]any{"to": scholar.did, "title": "By REST " + strconv.Itoa(i)}))
		}
	}()
	var offered []string
	during := func() {
		for _, offer := range s.offers(t, client, eliza, string(scholar.did), 20) {
			offered = append(offered, offer.handoff)
		}
	}
	during()
	for hops := 3; hops < 6; hops++ {
		was, is := fmt.Sprintf("max_hops = %d\n", hops-1), fmt.Sprintf("max_hops = %d\n", hops)
		s.rewrite(t, was, "max_hops = -1\n")
		if out, err := s.command(t, "reload").CombinedOutput(); err == nil || !strings.Contains(string(out), ": limits.max_hops: want 1 or more") || !strings.Contains(string(out), s.config+":") {
			t.Fatalf("a bad change is answered %s, %v", out, err)
		}
		during()
		s.rewrite(t, "max_hops = -1\n", is)
		var done struct {
			Changes []struct{ Key, Before, After string }
		}
		s.asks(t, &done, "reload", "--reason", "a good one")
		if len(done.Changes) != 1 || done.Changes[0].Key != "limits.max_hops" || done.Changes[0].Before != strconv.Itoa(hops-1) || done.Changes[0].After != strconv.Itoa(hops) {
			t.Errorf("the good change is told as %+v", done.Changes)
		}
		during()
	}
	stop.Store(true)
	offered = append(offered, <-posted...)

	waiting := slices.Clone(offered)
	deadline := time.After(patience)
	for len(waiting) > 0 {
		select {
		case data, open := <-stream:
			if !open {
				t.Fatalf("the stream ended with %d offers to come", len(waiting))
			}
			waiting = slices.DeleteFunc(waiting, func(id string) bool { return strings.Contains(data, id) })
		case <-deadline:
			t.Fatalf("%d of %d offers did not come", len(waiting), len(offered))
		}
	}
	during() // on the same connection
	if got := s.counters(t)[`baton_link_reconnects_total{link="lab",network="spanningtree"}`]; got != 0 {
		t.Errorf("the link was lost %v times", got)
	}
	t.Logf("%d offers, 3 good and 3 bad reloads", len(offered))
}
