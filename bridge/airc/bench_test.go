package airc_test

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	registrystore "github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// callers is how many agents write at once.
const callers = 64

// durable opens a registry on a record on disk.
func durable(b *testing.B) (*world, *registrystore.Record) {
	b.Helper()
	record, err := registrystore.Open(b.Context(), filepath.Join(b.TempDir(), "baton.db"), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = record.Close() })
	w := newWorld(b, func(_ *airc.Config, d *airc.Deps) {
		room := federation.InboxLimits{Events: 1 << 20, Bytes: 1 << 40, EventsPerSender: 1 << 20, BytesPerSender: 1 << 40}
		quotas := d.Quotas()
		quotas.Room = room // no bench reaches these limits
		d.Quotas = func() airc.Quotas { return quotas }
		d.Record = storetest.Bound(record)
		d.Signer = bridgetest.Signer(func(name string) federation.SigningKey { // another key for each name
			_, digits, _ := strings.Cut(name, "_")
			n, _ := strconv.Atoi(digits) // 0 for names without digits
			return signingKey(byte(0x80 + n))
		})
	})
	return w, record
}

// inParallel runs something in as many goroutines as there are callers.
func inParallel(b *testing.B, run func(caller int)) {
	b.Helper()
	b.SetParallelism(callers / runtime.GOMAXPROCS(0))
	var caller atomic.Int32
	b.RunParallel(func(pb *testing.PB) {
		mine := int(caller.Add(1)-1) % callers
		for pb.Next() {
			run(mine)
		}
	})
}

// team returns registered agents, and a request of each.
func (w *world) team(b *testing.B) []*bridgetest.Agent {
	b.Helper()
	team := make([]*bridgetest.Agent, callers)
	for i := range team {
		team[i] = w.agent(b, fmt.Sprintf("agent_%d", i), byte(i))
	}
	return team
}

// BenchmarkMessages posts signed messages, each of which is on disk when it is
// answered, and compares that with nothing but the verification of as many
// signatures.
func BenchmarkMessages(b *testing.B) {
	w, _ := durable(b)
	team := w.team(b)
	messages := make([][][]byte, callers)
	for i, a := range team {
		for range b.N/callers + callers {
			text, err := a.Sign(a.Envelope(a.Handle, "hello", nil))
			if err != nil {
				b.Fatal(err)
			}
			messages[i] = append(messages[i], text)
		}
	}
	var next [callers]atomic.Int64
	b.ResetTimer()
	inParallel(b, func(caller int) {
		queue := messages[caller]
		n := int(next[caller].Add(1) - 1)
		if n >= len(queue) {
			return // another caller's share
		}
		if status, answer, err := team[caller].Post(b.Context(), queue[n]); err != nil || status != http.StatusCreated {
			b.Error(status, answer, err)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(verifications(), "verifications/s")
}

// verifications measures how many signatures a second all processors verify.
func verifications() float64 {
	key, _ := newKey(1)
	public, _ := key.Public().(ed25519.PublicKey)
	message := []byte(strings.Repeat("x", 300))
	signature := ed25519.Sign(key, message)
	const each = 2000
	began := time.Now()
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for range each {
				ed25519.Verify(public, message, signature)
			}
		})
	}
	all.Wait()
	return float64(each*runtime.GOMAXPROCS(0)) / time.Since(began).Seconds()
}

func BenchmarkHeartbeats(b *testing.B) {
	w, _ := durable(b)
	team := w.team(b)
	b.ResetTimer()
	inParallel(b, func(caller int) {
		request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/presence", strings.NewReader(`{"status":"online","context":"x"}`))
		request.Header.Set("Authorization", "Bearer "+team[caller].Token)
		recorder := httptest.NewRecorder()
		w.mux.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK {
			b.Error(recorder.Code, recorder.Body)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "heartbeats/s")
}

// BenchmarkInboxPage reads 50 messages from the middle of 100,000.
func BenchmarkInboxPage(b *testing.B) {
	w, record := durable(b)
	scout := w.agent(b, "scout_7", 0x01)
	const messages, writers = 100_000, 128
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for n := writer; n < messages; n += writers {
				m := federationtest.Message(n, "planner", "scout_7")
				if _, err := record.Post(b.Context(), agents.Posting{Message: m}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	_, cursor, err := scout.Inbox(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	for range 20 {
		if _, cursor, err = scout.Inbox(b.Context(), cursor); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		page, _, err := scout.Inbox(b.Context(), cursor)
		if err != nil || len(page) != 50 {
			b.Fatal(len(page), err)
		}
	}
}
