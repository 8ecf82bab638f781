package rest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/federation"
)

// waiting is a request waiting for its answer, or for more of it.
type waiting struct {
	screen

	status int
	leave  func() // the client's way to hang up
	ended  chan struct{}
}

// WriteHeader implements [http.ResponseWriter].
func (w *waiting) WriteHeader(status int) { w.status = status }

// wait sends a request, and does not wait for the answer.
func (a *agent) wait(t *testing.T, path string) *waiting {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	w := &waiting{screen: screen{header: http.Header{}}, status: http.StatusOK, leave: leave, ended: make(chan struct{})}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+a.token)
	go func() {
		defer close(w.ended)
		a.w.mux.ServeHTTP(w, r)
	}()
	synctest.Wait()
	return w
}

func TestPollAnswersOnArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		stream := scholar.wait(t, "/api/v1/inbox/stream")
		poll, short := scholar.wait(t, "/api/v1/inbox?wait=50s"), scholar.wait(t, "/api/v1/inbox?wait=20s")
		if got := stream.shows(); got != ": here\n\n" {
			t.Errorf("at the start %q", got)
		}
		time.Sleep(20 * time.Second)
		if got := stream.shows(); got != ": here\n\n" {
			t.Errorf("at the first heartbeat %q", got)
		}
		<-short.ended
		if got := short.shows(); !strings.HasPrefix(got, `{"items":[],`) {
			t.Errorf("a poll whose time is over is answered %q", got)
		}
		for _, title := range []string{"one", "two"} {
			eliza.offer(t, map[string]any{"to": scholar.did, "title": title})
			if got := stream.shows(); strings.Count(got, "id: ") != 1 || !strings.Contains(got, title) {
				t.Errorf("after the offer %s: %q", title, got)
			}
		}
		<-poll.ended
		if got := poll.shows(); poll.status != http.StatusOK || !strings.Contains(got, "one") || strings.Contains(got, "two") {
			t.Errorf("answered %d %q", poll.status, got)
		}
		stream.leave()
		<-stream.ended
	})
}

func TestPollEndsWithTheClientAndTheGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scholar := w.login(t, "scholar")
		for range 20 { // more than may watch at a time
			stream, poll := scholar.wait(t, "/api/v1/inbox/stream"), scholar.wait(t, "/api/v1/inbox?wait=50s")
			for _, one := range []*waiting{stream, poll} {
				one.leave()
				<-one.ended
			}
			if got := poll.shows(); got != "" {
				t.Errorf("a client that left is answered %q", got)
			}
		}
		stream, poll := scholar.wait(t, "/api/v1/inbox/stream"), scholar.wait(t, "/api/v1/inbox?wait=50s")
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.link.Run(ctx, func() {}) }()
		synctest.Wait()
		end()
		<-ended
		<-stream.ended
		<-poll.ended
		if got := poll.shows(); !strings.HasPrefix(got, `{"items":[],`) {
			t.Errorf("at the end a poll is answered %q", got)
		}
		if late := scholar.get(t, "/api/v1/inbox?wait=50s"); late.Status != http.StatusOK {
			t.Errorf("after the end a poll is answered %+v", late)
		}
	})
}

// failing is a record with its inboxes only up to some moment.
type failing struct {
	participant.Inbox

	away *atomic.Bool
}

func (f failing) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	if f.away.Load() {
		return nil, &federation.UnavailableError{What: "the record"}
	}
	return f.Inbox.Replay(ctx, to, after, limit)
}

func TestPollReturnsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		w := newWorld(t, func(d *rest.Deps) { d.Inbox = failing{d.Inbox, &away} })
		scholar := w.login(t, "scholar")
		stream, poll := scholar.wait(t, "/api/v1/inbox/stream"), scholar.wait(t, "/api/v1/inbox?wait=50s")
		stream.shows()
		away.Store(true)
		time.Sleep(15 * time.Second)
		<-poll.ended
		if got := poll.shows(); poll.status != http.StatusServiceUnavailable || !strings.Contains(got, `"unavailable"`) {
			t.Errorf("answered %d %q", poll.status, got)
		}
		if got := stream.shows(); got != ": here\n\n" { // which looks again
			t.Errorf("a stream shows %q", got)
		}
		stream.leave()
		<-stream.ended
	})
}
