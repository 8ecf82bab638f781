package airc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/federation"
)

// trace records the requests to a registry, in order.
type trace struct {
	http.RoundTripper

	mu    sync.Mutex
	paths []string
}

// reached returns the requests so far: path and status.
func (h *trace) reached() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.paths)
}

func (h *trace) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		h.mu.Lock()
		h.paths = append(h.paths, fmt.Sprint(strings.TrimPrefix(r.URL.Path, "/federation/"), " ", response.StatusCode))
		h.mu.Unlock()
	}
	return response, err
}

// A decision waits for the other registry as messages do, also over a restart, and
// arrives between those before and those after it.
func TestQueueDeliversADecisionAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, a, b, scout, amy := pair(t)
		defer b.run(t)()
		seen := &trace{RoundTripper: b}
		net.hosts["b.test"] = seen
		stop := a.run(t)
		if got := told(scout.Send(t.Context(), "amy_1@b.test", "hello", nil)); got != "202" {
			t.Fatal(got)
		}
		time.Sleep(2 * time.Second)
		net.set("b.test", true)
		for _, action := range []string{"block", "unblock", "accept", "accept"} { // the last one is the one before
			if got := told(scout.Consent(t.Context(), "amy_1@b.test", action)); got != "200" {
				t.Fatalf("%s: %s", action, got)
			}
		}
		if got := told(scout.Send(t.Context(), "amy_1@b.test", "and now", nil)); got != "202" {
			t.Fatal(got)
		}
		time.Sleep(6 * time.Minute)
		stop()
		defer a.run(t)()
		time.Sleep(time.Minute)
		net.set("b.test", false)
		time.Sleep(2 * time.Minute)
		want := []string{"relay 202", "consent 200", "consent 200", "consent 200", "relay 202"}
		if diff := cmp.Diff(want, seen.reached()); diff != "" {
			t.Errorf("what reached it (-want +got):\n%s", diff)
		}
		if got := edge(t, amy, "scout_7@a.test"); !strings.HasPrefix(got, "accepted ") {
			t.Errorf("the edge there: %s", got)
		}
		if said := bodies(t, a, "scout_7"); len(said) != 2 { // delayed, delivered: only of the message
			t.Errorf("the sender was told %v", said)
		}
		if owed, err := a.link.Backlogs(t.Context()); err != nil || cmp.Diff([]federation.PeerBacklog{{Peer: "b.test"}}, owed) != "" {
			t.Errorf("owed: %+v, %v", owed, err)
		}
		attempts := func(outcome string) float64 {
			return testutil.ToFloat64(a.deps.Metrics.Relays.WithLabelValues("b.test", outcome))
		}
		if attempts("delivered") != 5 || attempts("away") < 1 {
			t.Errorf("%v were delivered, and it was away %v times", attempts("delivered"), attempts("away"))
		}
	})
}

// A pause requested by a registry survives a restart.
func TestQueueKeepsRetryAfterOverARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := newInternet()
		a := net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
		scout := a.resident(t, "a.test", "scout_7", 0x01)
		var asked atomic.Int32
		mux := http.NewServeMux()
		mux.HandleFunc("GET /.well-known/airc", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"protocol":"AIRC"}`) })
		mux.HandleFunc("POST /api/federation/relay", func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Retry-After", "1800")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":"unavailable"}`)
		})
		net.hosts["b.test"] = roundTripper(func(r *http.Request) *http.Response {
			recorder := httptest.NewRecorder()
			mux.ServeHTTP(recorder, r)
			return recorder.Result()
		})
		stop := a.run(t)
		for _, to := range []string{"amy_1", "bob_1"} { // two lanes
			if got := told(scout.Send(t.Context(), to+"@b.test", "hello", nil)); got != "202" {
				t.Fatal(got)
			}
		}
		time.Sleep(10 * time.Minute)
		stop()
		defer a.run(t)()
		time.Sleep(19 * time.Minute)
		if n := asked.Load(); n != 1 {
			t.Errorf("within its half hour it was asked %d times", n)
		}
		time.Sleep(2 * time.Minute)
		if n := asked.Load(); n != 2 {
			t.Errorf("after it, it was asked %d times", n)
		}
	})
}

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// The name of a registry is a label only if the configuration has it: senders can invent
// any other name.
func TestQueueIsSharedByUnconfiguredRegistries(t *testing.T) {
	t.Parallel()
	w := newInternet().join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
	now := time.Now()
	for n, peer := range []string{"x.test", "b.test", "y.test"} {
		r := federation.PeerDelivery{Peer: peer, Sender: "scout_7", Message: peer, OrderKey: "x", Queued: now.Add(time.Duration(-n) * time.Hour)}
		if err := w.record.Enqueue(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	owed, err := w.link.Backlogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(owed, func(b federation.PeerBacklog) bool { return b.Peer == "others" })
	if len(owed) != 2 || owed[0].Peer != "b.test" || owed[0].Rows != 1 || i != 1 || owed[1].Rows != 2 || !owed[1].Oldest.Equal(now.Add(-2*time.Hour)) {
		t.Errorf("owed %+v", owed)
	}
}

// A registry accepts nine messages a minute. Each agent gets its turn, without waiting behind all
// messages of another one.
func TestQueueAlternatesSenders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := newInternet()
		a := net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test", MessagesPerMinute: 9})
		scout, mia := a.resident(t, "a.test", "scout_7", 0x01), a.resident(t, "a.test", "mia_1", 0x02)
		var mu sync.Mutex
		var took []string
		mux := http.NewServeMux()
		mux.HandleFunc("GET /.well-known/airc", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"protocol":"AIRC"}`) })
		mux.HandleFunc("POST /api/federation/relay", func(w http.ResponseWriter, r *http.Request) {
			var said struct{ From, Body string }
			if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
				t.Error(err)
			}
			mu.Lock()
			took = append(took, said.From+" "+said.Body)
			mu.Unlock()
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"success":true}`)
		})
		net.hosts["b.test"] = roundTripper(func(r *http.Request) *http.Response {
			recorder := httptest.NewRecorder()
			mux.ServeHTTP(recorder, r)
			return recorder.Result()
		})
		so := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(took)
		}
		defer a.run(t)()
		var all []string
		for n := range 30 {
			text := fmt.Sprintf("message %02d", n)
			all = append(all, "scout_7 "+text)
			if got := told(scout.Send(t.Context(), fmt.Sprintf("amy_%d@b.test", n%3), text, nil)); got != "202" {
				t.Fatal(got)
			}
		}
		time.Sleep(5 * time.Second)
		before := len(so())
		if before < 9 || before > 10 {
			t.Fatalf("%d messages in the first seconds", before)
		}
		for _, text := range []string{"first", "second"} {
			if got := told(mia.Send(t.Context(), "bob_1@b.test", text, nil)); got != "202" {
				t.Fatal(got)
			}
		}
		for len(so()) < before+4 {
			time.Sleep(time.Second)
		}
		next := so()[before:]
		if first, second := slices.Index(next, "mia_1 first"), slices.Index(next, "mia_1 second"); first < 0 || second < first {
			t.Errorf("after the message of the other one come %q", next)
		}
		time.Sleep(5 * time.Minute)
		lanes := func(said []string) (of [3][]string) {
			for n, text := range all {
				if slices.Contains(said, text) {
					of[n%3] = append(of[n%3], text)
				}
			}
			return of
		}
		done := so()
		if len(done) != 32 {
			t.Errorf("the registry has %q", done)
		}
		for n, lane := range lanes(done) {
			arrived := slices.DeleteFunc(slices.Clone(done), func(text string) bool { return !slices.Contains(lane, text) })
			if !slices.Equal(arrived, lane) || len(lane) != 10 {
				t.Errorf("conversation %d arrives as %q", n, arrived)
			}
		}
	})
}
