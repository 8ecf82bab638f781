package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

// sent is an event of a stream.
type sent struct{ id, kind, data string }

// nextEvent reads a stream up to the end of an event, past comments.
func nextEvent(lines *bufio.Reader) (sent, error) {
	var e sent
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case name == "id":
			e.id = value
		case name == "event":
			e.kind = value
		case name == "data":
			e.data = value
		case line == "\n" && e != sent{}:
			return e, nil
		}
	}
}

// title returns the title of the step in an event.
func (e sent) title(t *testing.T) string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(e.data))
	decoder.DisallowUnknownFields()
	var entry contract.Entry
	if err := decoder.Decode(&entry); err != nil || entry.Cursor != e.id || e.kind != "step" {
		t.Errorf("event %+v: %v", e, err)
	}
	return entry.Step.Title
}

// watch connects to a stream and passes each event on until it is told that it is enough.
func (a *agent) watch(t *testing.T, server, lastID string, each func(e sent) (enough bool)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/api/v1/inbox/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("answered %d %s", response.StatusCode, response.Header)
	}
	for lines := bufio.NewReader(response.Body); ; {
		e, err := nextEvent(lines)
		if err != nil {
			t.Fatalf("the stream ends: %v", err)
		}
		if each(e) {
			return
		}
	}
}

// write makes several agents offer work to a DID at the same time, under titles
// numbered from 0, and returns the group of the writers.
func (w *world) write(t *testing.T, to federation.DID, writers, each int) *sync.WaitGroup {
	t.Helper()
	writing := &sync.WaitGroup{}
	for i := range writers {
		writer := w.login(t, "writer "+strconv.Itoa(i))
		writing.Go(func() {
			for n := range each {
				writer.offer(t, map[string]any{"to": to, "title": strconv.Itoa(i*each + n)})
			}
		})
	}
	return writing
}

// A client that reconnects sees each event once, in order, while others go on writing.
func TestStreamResumesWithoutLossOrRepetition(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.mux)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	scholar := w.login(t, "scholar")
	const writers, each, cuts = 3, 100, 200
	writing := w.write(t, scholar.did, writers, each)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var titles []string
	last := ""
	for cut := 0; len(titles) < writers*each; cut++ {
		left := 1 + random.IntN(2)
		if cut >= cuts {
			left = writers * each
		}
		scholar.watch(t, server.URL, last, func(e sent) bool {
			titles, last = append(titles, e.title(t)), e.id
			left--
			return left == 0 || len(titles) == writers*each
		})
	}
	writing.Wait()
	scholar.sawAll(t, titles, writers*each)
}

// sawAll compares the titles that an agent saw, in their order, with its inbox: so many
// entries, each once.
func (a *agent) sawAll(t *testing.T, titles []string, all int) {
	t.Helper()
	inbox := decode[contract.InboxPage](t, a.get(t, "/api/v1/inbox?limit=500"), http.StatusOK)
	var want []string
	for _, entry := range inbox.Items {
		want = append(want, entry.Step.Title)
	}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("what was seen (-inbox +seen):\n%s", diff)
	}
	if slices.Sort(titles); len(slices.Compact(titles)) != all {
		t.Errorf("%d different entries of %d", len(titles), all)
	}
}

// screen is the text before the watcher of a stream, until it looks away.
type screen struct {
	header http.Header

	mu   sync.Mutex
	text bytes.Buffer
	away bool
}

func (s *screen) Header() http.Header { return s.header }
func (s *screen) WriteHeader(int)     {}
func (s *screen) Flush()              {}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return 0, errors.New("planted: the watcher is gone")
	}
	return s.text.Write(text)
}

// shows returns the text written since the last call.
func (s *screen) shows() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _ := io.ReadAll(&s.text)
	return string(text)
}

// look begins to watch. The function that it returns looks away, the channel is closed
// when the stream has ended.
func (a *agent) look(t *testing.T, query string) (s *screen, stop func(), ended <-chan struct{}) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/inbox/stream"+query, nil)
	r.Header.Set("Authorization", "Bearer "+a.token)
	s, done := &screen{header: http.Header{}}, make(chan struct{})
	go func() {
		defer close(done)
		a.w.mux.ServeHTTP(s, r)
	}()
	return s, stop, done
}

func TestStreamSendsArrivalsAndKeepAlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "before"})
		page := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox"), http.StatusOK)
		scholar.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": page.NextCursor})

		all, stopAll, _ := scholar.look(t, "")
		desk, stopDesk, ended := scholar.look(t, "?device=desk")
		defer stopAll()
		defer stopDesk()
		if got := all.shows(); !strings.HasPrefix(got, ": here\n\nid: "+page.NextCursor+"\nevent: step\n") {
			t.Errorf("at the start it shows %q", got)
		}
		if got := desk.shows(); got != ": here\n\n" {
			t.Errorf("a device that has read it is shown %q", got)
		}
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "live"})
		for _, s := range []*screen{all, desk} {
			if got := s.shows(); strings.Count(got, "id: ") != 1 || !strings.Contains(got, `"live"`) {
				t.Errorf("after an offer it shows %q", got)
			}
		}
		time.Sleep(15 * time.Second)
		if got := desk.shows(); got != ": here\n\n" {
			t.Errorf("when nothing comes it shows %q", got)
		}
		desk.mu.Lock()
		desk.away = true
		desk.mu.Unlock()
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "unseen"})
		<-ended
	})
}

func TestStreamEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scholar := w.login(t, "scholar")
		_, stop, ended := scholar.look(t, "")
		defer stop()
		began := time.Now()
		<-ended
		if lasted := time.Since(began); lasted < 14*time.Minute || lasted > 16*time.Minute {
			t.Errorf("it ended after %s", lasted)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scholar := w.login(t, "scholar")
		var stops []func()
		for range 8 {
			_, stop, _ := scholar.look(t, "")
			stops = append(stops, stop)
		}
		synctest.Wait()
		full := scholar.get(t, "/api/v1/inbox/stream")
		refused(t, full, http.StatusServiceUnavailable, "unavailable")
		if full.Header.Get("Retry-After") != "15" {
			t.Errorf("headers %v", full.Header)
		}
		stops[0]()
		synctest.Wait()
		again, stop, _ := scholar.look(t, "")
		if got := again.shows(); got != ": here\n\n" {
			t.Errorf("where one has left it shows %q", got)
		}
		for _, stop := range append(stops, stop) {
			stop()
		}
	})
}
