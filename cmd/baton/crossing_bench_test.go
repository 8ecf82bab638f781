//go:build interop

package main_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// pace is how far apart the steps of the benchmark are: 50 a second.
const pace = 20 * time.Millisecond

// rig is a gateway without limits between a real InspIRCd and an agent that alice's
// handoff is assigned to.
type rig struct {
	alice, bob *bridgetest.IRCClient
	key        person
	scout      *bridgetest.Agent
	handoff    string
	cursor     string
}

// newRig starts all of it, or ends the benchmark.
func newRig(b *testing.B) *rig {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	r := &rig{}
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	public := r.launch(b, dir)
	var err error
	key := ed25519.NewKeyFromSeed([]byte("alice, who has 32 bytes of seed."))
	r.key = person{key: key, did: didKey(key[ed25519.SeedSize:])}
	r.scout = bridgetest.NewAgent("http://"+public, "scout_7", []byte("scout, who has 32 bytes of seed."))
	must(r.scout.Register(ctx))
	offer := rfcTags.offer(r.key, channel, extras{"to": r.scout.DID, "title": "measure"})
	must(r.alice.Send(offer.tags, "TAGMSG", channel))
	status := 0
	for status != http.StatusCreated && err == nil { // the offer is on its way
		status, _, err = r.scout.Send(ctx, handleOf(r.key.did), "on it", answerPayload("accept", offer.handoff))
	}
	must(err)
	r.handoff = offer.handoff
	_, err = r.alice.Next(ctx, rfcTags.names("accept", offer.handoff))
	must(err)
	_, r.cursor, err = r.scout.Inbox(ctx, "")
	must(err)
	return r
}

// launch runs InspIRCd and the gateway, and brings alice and bob into the channel.
func (r *rig) launch(b *testing.B, dir string) (public string) {
	b.Helper()
	ircd, err := bridgetest.StartInspIRCd(b.Context(), dir, bridgetest.InspIRCdConfig{
		Name: "lab.irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "theirs", RecvPassword: "ours",
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ircd.Stop)
	public, operators := federationtest.FreeAddr(b), federationtest.FreeAddr(b)
	config := fmt.Sprintf("[home]\nname = \"gw.test\"\n[http]\nlisten = %q\npublic_url = \"http://%s\"\n[admin]\nlisten = %q\n%sopen_handoffs_per_did = 0\ninbox_events = 0\ninbox_events_per_sender = 0\ninbox_bytes_per_sender = 0\n[log]\nlevel = \"warn\"\n%s",
		public, public, operators, unlimited, linkTable("lab", "lab.irc.test", ircd.LinkAddr))
	files := map[string]string{"baton.toml": config, "data/lab.send": "ours\n", "data/lab.recv": "theirs\n"}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		b.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), program, "serve", "--config", filepath.Join(dir, "baton.toml"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for status := 0; status != http.StatusOK; {
		status = statusOf(b, "http://"+operators+"/readyz")
	}
	for nick, client := range map[string]**bridgetest.IRCClient{"alice": &r.alice, "bob": &r.bob} {
		if *client, err = bridgetest.DialIRC(b.Context(), ircd.ClientAddr, nick, "message-tags"); err != nil {
			b.Fatal(err)
		}
		b.Cleanup((*client).Close)
		if err := (*client).Join(b.Context(), channel); err != nil {
			b.Fatal(err)
		}
	}
	return public
}

// BenchmarkCrossing measures how long a step is on its way: from the write of its signed
// text until the other side has read it, on sockets that all acknowledge at once. It
// reports the 50th and 99th percentile in milliseconds, and the same percentiles of the
// part that no gateway can save: the same sockets without one, and one write to the disk at
// the same pace, which takes longer than one of many in a row.
//
//	go test -tags interop -run '^$' -bench Crossing -benchtime 1000x ./cmd/baton
func BenchmarkCrossing(b *testing.B) {
	r := newRig(b)
	b.Run("IRC to AIRC", func(b *testing.B) {
		arrived := newArrivals()
		stop := r.poll(b, arrived)
		defer stop()
		measure(b, arrived, func(int) (string, func() error) {
			offer := rfcTags.offer(r.key, channel, extras{"to": r.scout.DID, "title": "measure"})
			return offer.handoff, func() error { return r.alice.Send(offer.tags, "TAGMSG", channel) }
		})
	})
	b.Run("AIRC to IRC", func(b *testing.B) {
		arrived := newArrivals()
		stop := r.watch(b, r.alice, arrived, func(m bridgetest.IRCMessage) string {
			if rfcTags.names("progress", r.handoff)(m) {
				return m.Tags[vendor+"handoff-note"]
			}
			return ""
		})
		defer stop()
		measure(b, arrived, func(i int) (string, func() error) {
			note := fmt.Sprint("note ", i)
			text, err := r.scout.Sign(r.scout.Envelope(handleOf(r.key.did), note, payload("task:result", map[string]any{
				"requestId": r.handoff, "status": "partial", "result": map[string]any{"note": note},
			})))
			return note, func() error {
				if err == nil {
					_, _, err = r.scout.Post(b.Context(), text)
				}
				return err
			}
		})
	})
	b.Run("client to client", func(b *testing.B) {
		arrived := newArrivals()
		stop := r.watch(b, r.bob, arrived, func(m bridgetest.IRCMessage) string {
			if m.Command == "PRIVMSG" {
				return m.Params[1]
			}
			return ""
		})
		defer stop()
		measure(b, arrived, func(i int) (string, func() error) {
			text := fmt.Sprint("text ", i)
			return text, func() error { return r.alice.Send(nil, "PRIVMSG", channel, text) }
		})
	})
	b.Run("HTTP round trip", func(b *testing.B) {
		arrived := newArrivals()
		measure(b, arrived, func(i int) (string, func() error) {
			name := fmt.Sprint(i)
			return name, func() error {
				_, _, err := r.scout.Do(b.Context(), http.MethodGet, "/.well-known/airc/registry.json", nil)
				arrived.note(name, time.Now())
				return err
			}
		})
	})
	b.Run("write to disk", func(b *testing.B) {
		arrived := newArrivals()
		file, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		defer file.Close()
		pages := make([]byte, 16<<12) // as many as the record writes for a step
		measure(b, arrived, func(i int) (string, func() error) {
			name := fmt.Sprint(i)
			return name, func() error {
				_, err := file.Write(pages)
				err = errors.Join(err, file.Sync())
				arrived.note(name, time.Now())
				return err
			}
		})
	})
}

// arrivals is when things arrived, by name.
type arrivals struct {
	mu   sync.Mutex
	when map[string]time.Time
}

func newArrivals() *arrivals { return &arrivals{when: map[string]time.Time{}} }

func (a *arrivals) note(name string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.when[name] = at
}

func (a *arrivals) all() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.when)
}

// measure sends b.N things in even intervals, and reports how long they took.
func measure(b *testing.B, arrived *arrivals, prepare func(i int) (name string, send func() error)) {
	b.Helper()
	left := map[string]time.Time{}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	b.ResetTimer()
	for i := range b.N {
		name, send := prepare(i)
		<-tick.C
		left[name] = time.Now()
		if err := send(); err != nil {
			b.Fatal(err)
		}
	}
	for deadline := time.Now().Add(patience); len(arrived.all()) < b.N; {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d arrived", len(arrived.all()), b.N)
		}
		<-tick.C
	}
	b.StopTimer()
	var took []time.Duration
	for name, at := range arrived.all() {
		took = append(took, at.Sub(left[name]))
	}
	slices.Sort(took)
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(milliseconds(took[len(took)/2]), "p50-ms")
	b.ReportMetric(milliseconds(took[len(took)*99/100]), "p99-ms")
	b.ReportMetric(0, "ns/op") // it is the pace
}

// watch notes the messages that a client reads, until it is stopped.
func (r *rig) watch(b *testing.B, client *bridgetest.IRCClient, arrived *arrivals, name func(bridgetest.IRCMessage) string) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			m, err := client.Next(ctx, func(m bridgetest.IRCMessage) bool { return name(m) != "" })
			at := time.Now()
			if err != nil {
				return
			}
			arrived.note(name(m), at)
		}
	})
	return func() { cancel(); running.Wait() }
}

// poll makes the agent poll its inbox again and again, and notes the entries.
func (r *rig) poll(b *testing.B, arrived *arrivals) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	reader := *r.scout
	var running sync.WaitGroup
	running.Go(func() {
		for {
			_, text, err := reader.Do(ctx, http.MethodGet, "/messages/inbox?wait=5&cursor="+r.cursor, nil)
			at := time.Now()
			var page struct {
				Messages   []message
				NextCursor string
			}
			if err != nil || json.Unmarshal(text, &page) != nil {
				return
			}
			r.cursor = page.NextCursor
			for _, m := range page.Messages {
				arrived.note(about(m).ID, at)
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// statusOf asks once, and returns 0 without an answer.
func statusOf(b *testing.B, url string) int {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}
