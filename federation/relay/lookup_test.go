package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

// meeting returns two homes that reach each other only through a hub, once each reads the stream
// from the other one.
func meeting(t *testing.T, change ...func(g *gate)) (hub accountsHub, a, b *gate) {
	t.Helper()
	hub = newAccountsHub(t, "a.test", "b.test")
	all := newGates(t, "a.test", "b.test")
	for _, g := range all {
		for _, each := range change {
			each(g)
		}
	}
	meet(t, hub, all...)
	a, b = all[0], all[1]
	for _, g := range all {
		g.reads(t)
	}
	return hub, a, b
}

// reads waits until the home reads the stream from the other home, and the other way round.
func (g *gate) reads(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for _, peer := range g.peers {
		for {
			_, err := peer.Lookup(t.Context(), federation.ProfilePath)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not answer: %v", peer.Name(), err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func TestLookupReadsDocumentsThroughTheHub(t *testing.T) {
	t.Parallel()
	_, a, b := meeting(t)
	document, err := a.peers[b.id].Lookup(t.Context(), federation.ProfilePath)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := federation.ParseHomeProfile(document.Body)
	if err != nil || profile.Home != b.id {
		t.Errorf("got %s, %v", document.Body, err)
	}
	for name, signed := range map[string]relay.Envelope{
		"the profile": {Body: document.Body, Signature: document.Signature}, "the answer": document.Answer,
	} {
		if verdict, err := a.deps.Signer.Verify(t.Context(), b.id, time.Now(), signed.Body, signed.Signature); verdict != federation.Valid {
			t.Errorf("the signature of %s is %v: %v", name, verdict, err)
		}
	}
	if _, err := a.peers[b.id].Lookup(t.Context(), "/airc/none/none/did.json"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a document that is not there: %v", err)
	}
}

func TestHousesAsksThroughTheHub(t *testing.T) {
	t.Parallel()
	_, a, b := meeting(t)
	for name, want := range map[string]bool{"bob": true, "alice": false} {
		here, err := a.peers[b.id].Houses(t.Context(), keyOf(name).DID)
		if err != nil || here != want {
			t.Errorf("%s has the mailbox there: %t, %v; want %t", name, here, err, want)
		}
	}
}

// A lookup reads only public documents: the other routes of a home are for clients that identify
// themselves.
func TestLookupServesNoOtherRoute(t *testing.T) {
	t.Parallel()
	var reasons sync.Map
	_, a, b := meeting(t, func(g *gate) {
		g.deps.BadInput = func(home federation.HomeID, reason string) { reasons.Store(string(home)+" "+reason, true) }
	})
	for _, path := range []federation.URLPath{"/metrics", "/fed/v1/events", "/.well-known/did.json?x=1", "//c.test/did.json", "did.json"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		document, err := a.peers[b.id].Lookup(ctx, path)
		cancel()
		if err == nil {
			t.Errorf("%s: got %s", path, document.Body)
		}
	}
	if _, counted := reasons.Load("a.test malformed"); !counted {
		t.Error("no such lookup is counted")
	}
}

// asking is a signer that asks the other home before it verifies a message of it, as a home
// does that does not know the key.
type asking struct {
	relay.Signer
	peer func(home federation.HomeID) *relay.Peer
}

func (s asking) Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	if _, err := s.peer(home).Lookup(ctx, federation.ProfilePath); err != nil {
		return federation.Unverifiable, err
	}
	return s.Signer.Verify(ctx, home, at, message, signature)
}

// Each home verifies many batches of the other one at once, and needs an answer of it for each.
// No batch holds up those answers. Batches that wait for each other get none, however often they
// are sent.
func TestHubAnswersDuringBatches(t *testing.T) {
	t.Parallel()
	_, a, b := meeting(t, func(g *gate) {
		g.deps.Signer = asking{g.deps.Signer, func(home federation.HomeID) *relay.Peer { return g.peers[home] }}
	})
	start := time.Now()
	var failed atomic.Int64
	var sending sync.WaitGroup
	for range 16 {
		for _, pair := range [][2]*gate{{a, b}, {b, a}} {
			sending.Go(func() {
				body := fmt.Appendf(nil, `{"type":"steps","v":1,"from":%q,"to":%q,"sent":%q,"items":[]}`, pair[0].id, pair[1].id, time.Now().Format(time.RFC3339Nano))
				signature, err := pair[0].deps.Signer.Sign(t.Context(), body)
				if err != nil {
					t.Error(err)
					return
				}
				for {
					_, err = pair[0].deps.Hub.Carry(t.Context(), pair[1].id, relay.Envelope{Body: body, Signature: signature})
					if err == nil {
						return
					}
					if time.Since(start) > time.Minute {
						failed.Add(1)
						return
					}
				}
			})
		}
	}
	sending.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of 32 batches got no answer in %s", failed.Load(), time.Since(start))
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestHubCountsUnreadableMessages(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	var counted atomic.Int64
	hub, _, b := meeting(t, func(g *gate) {
		if g.id == "b.test" {
			g.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
			g.deps.BadInput = func(federation.HomeID, string) { counted.Add(1) }
		}
	})
	conn := hub.connect("a.test", "_INBOX.a_test")
	const messages = 50
	for i := range messages {
		if err := conn.PublishMsg(&nats.Msg{Subject: "fed.b_test.a_test.steps", Data: fmt.Appendf(nil, "garbage %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	// The hub hands out a message in transit again, a minute after its reader was replaced.
	deadline := time.Now().Add(2 * patience)
	for counted.Load() < messages {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are counted at %s", counted.Load(), messages, b.id)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if lines := strings.Count(log.String(), "message of another home not accepted"); lines != 1 {
		t.Errorf("the log has %d lines:\n%s", lines, log.String())
	}
}

func TestSkewIsLoggedIfLarge(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	_, a, b := meeting(t, func(g *gate) {
		if g.id == "a.test" {
			g.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
		} else {
			g.ahead.Store(int64(3 * time.Minute))
		}
	})
	a.run(b)
	deadline := time.Now().Add(patience)
	for !strings.Contains(log.String(), "the clocks of the homes differ") {
		if time.Now().After(deadline) {
			t.Fatalf("the log says nothing:\n%s", log.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if skew := a.peers[b.id].Skew(); skew > -2*time.Minute || skew < -4*time.Minute {
		t.Errorf("the skew is %s", skew)
	}
}
