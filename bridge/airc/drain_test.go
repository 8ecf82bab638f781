package airc_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/federation"
)

// drained is how many messages wait for the returning registry. The default shows that
// it works; with ten thousand it takes some ten seconds:
//
//	go test ./bridge/airc -run Drains -v -drained=10000
var drained = flag.Int("drained", 300, "messages that wait for a returning registry")

// busyRegistry takes so many messages a minute, says so, and rejects the rest.
type busyRegistry struct {
	perMinute int
	bucket    *rate.Limiter

	mu      sync.Mutex
	away    bool
	taken   int
	tooMany int
}

func (b *busyRegistry) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := httptest.NewRecorder()
	switch {
	case b.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method == http.MethodGet:
		_, _ = fmt.Fprintf(w, `{"protocol":"airc","rate_limits":{"messages_per_minute":%d}}`, b.perMinute)
	case !b.bucket.Allow():
		b.tooMany++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.WriteString(`{"error":"rate_limited"}`)
	default:
		b.taken++
		w.WriteHeader(http.StatusCreated)
		_, _ = w.WriteString(`{}`)
	}
	return w.Result(), nil
}

// back ends its absence.
func (b *busyRegistry) back() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = false
}

// took waits until it took so many messages, and returns how many it turned away.
func (b *busyRegistry) took(n int) (tooMany int) {
	for {
		b.mu.Lock()
		taken, tooMany := b.taken, b.tooMany
		b.mu.Unlock()
		if taken >= n {
			return tooMany
		}
		time.Sleep(time.Second)
	}
}

func TestQueueDrainsAtThePaceOfAReturningRegistry(t *testing.T) {
	const perMinute, lanes = 60, 100
	rows := *drained
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := newInternet()
		peer := &busyRegistry{perMinute: perMinute, bucket: rate.NewLimiter(rate.Limit(perMinute)/60, perMinute), away: true}
		net.hosts["busy.test"] = peer
		a := net.join(t, "a.test", 0x0a, peers.Config{Domain: "busy.test", Dialect: "d2"})
		document, err := json.Marshal(map[string]string{"from": "scout_7", "to": "amy", "body": "x"})
		if err != nil {
			t.Fatal(err)
		}
		for n := range rows {
			r := federation.PeerDelivery{
				Peer: "busy.test", Sender: "scout_7", Message: fmt.Sprint(n), OrderKey: fmt.Sprintf("scout_7 amy%d", n%lanes), Document: document, Queued: time.Now(),
			}
			if err := a.record.Enqueue(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		defer a.run(t)()
		time.Sleep(4 * time.Minute)
		peer.back()
		returned := time.Now()
		peer.took(1)
		first := time.Now()
		if waited := first.Sub(returned); waited > time.Minute {
			t.Errorf("it was %s before the first one was sent", waited)
		}
		tooMany := peer.took(rows)
		ideal := time.Duration(rows-perMinute) * time.Minute / perMinute // a full bucket at first
		share := float64(ideal) / float64(time.Since(first))
		t.Logf("%d rows in %s: %.2f of what it takes, %d too many", rows, time.Since(first), share, tooMany)
		if share < 0.9 {
			t.Errorf("drained at %.2f of the registry's own limit, want 0.9", share)
		}
	})
}
