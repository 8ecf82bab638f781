package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// lines is a client of the server on a pair of streams, in one process.
type lines struct {
	t        *testing.T
	in       *io.PipeWriter
	messages chan map[string]any
}

// serveLines serves an account on a pair of streams until the test ends.
func serveLines(t *testing.T, account mcp.Account, o mcp.Options) *lines {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	l := &lines{t, toServer, make(chan map[string]any, 64)}
	var over sync.WaitGroup
	over.Go(func() {
		if err := mcp.Serve(context.WithoutCancel(t.Context()), account, o, in, out); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		_ = out.Close()
	})
	over.Go(func() {
		decoder := json.NewDecoder(fromServer)
		for {
			var m map[string]any
			if decoder.Decode(&m) != nil {
				return
			}
			l.messages <- m
		}
	})
	t.Cleanup(func() {
		_ = toServer.Close()
		over.Wait()
	})
	return l
}

func (l *lines) send(format string, arguments ...any) {
	l.t.Helper()
	if _, err := fmt.Fprintf(l.in, format+"\n", arguments...); err != nil {
		l.t.Fatal(err)
	}
}

// initialize begins a session of the revision 2025-11-25.
func (l *lines) initialize() map[string]any {
	l.t.Helper()
	l.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	answer := <-l.messages
	l.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return answer
}

func (a *agent) account() participant.Account {
	return participant.Account{Access: a.w.access, Caller: participant.Caller{DID: a.did}}
}

// offer files an offer, and returns its handoff.
func (a *agent) offer(tb testing.TB, to federation.DID, title string) string {
	tb.Helper()
	done, err := a.account().Offer(tb.Context(), participant.Offer{To: string(to), Title: title}, "")
	if err != nil {
		tb.Fatal(err)
	}
	return done.ID
}

func TestWaitReportsProgressAndEndsWithAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t)
		eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
		l := serveLines(t, scout.account(), mcp.Options{})
		l.initialize()
		l.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_wait","arguments":{"seconds":60},"_meta":{"progressToken":"p"}}}`)
		began := time.Now()
		time.Sleep(21 * time.Second)
		eliza.offer(t, scout.did, "Cite")
		var last float64
		for notices := 0; ; notices++ {
			m := <-l.messages
			if m["id"] != nil {
				result, _ := m["result"].(map[string]any)
				structured, _ := result["structuredContent"].(map[string]any)
				items, _ := structured["items"].([]any)
				if len(items) != 1 || structured["timed_out"] != false || notices < 2 || time.Since(began) != 21*time.Second {
					t.Errorf("after %s and %d notices: %v", time.Since(began), notices, structured)
				}
				return
			}
			params, _ := m["params"].(map[string]any)
			progress, _ := params["progress"].(float64)
			if m["method"] != "notifications/progress" || progress <= last || params["total"] != 60.0 || params["message"] != "waiting" || params["progressToken"] != "p" {
				t.Errorf("the notice is %v", m)
			}
			last = progress
		}
	})
}

func TestWaitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t)
		l := serveLines(t, w.agent(t, "scout").account(), mcp.Options{})
		l.initialize()
		began := time.Now()
		l.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_wait","arguments":{}}}`)
		m := <-l.messages
		result, _ := m["result"].(map[string]any)
		structured, _ := result["structuredContent"].(map[string]any)
		if structured["timed_out"] != true || time.Since(began) != 50*time.Second {
			t.Errorf("after %s: %v", time.Since(began), m)
		}
	})
}

func TestWaitCancelledAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t)
		eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
		l := serveLines(t, scout.account(), mcp.Options{})
		l.initialize()
		l.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_wait","arguments":{"seconds":600}}}`)
		time.Sleep(time.Second)
		l.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(time.Second)
		if n := w.Woken.Waiting(); n != 0 {
			t.Errorf("%d still wait a second after they were cancelled", n)
		}
		eliza.offer(t, scout.did, "Cite")
		page, err := scout.account().Inbox(t.Context(), participant.InboxQuery{Limit: 5, Device: "mcp"})
		if err != nil || len(page.Items) != 1 || !page.Items[0].Waits {
			t.Errorf("the inbox has %+v, %v", page, err)
		}
	})
}

func TestWaitOverHTTPEndsWithItsStream(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions() {
		for _, cancelled := range []bool{false, true} {
			if cancelled && revision == "2026-07-28" {
				continue // it has no such notification over HTTP: the client closes the stream
			}
			w := newWorld(t)
			scout := w.agent(t, "scout")
			ctx, cut := context.WithCancel(t.Context())
			body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"inbox_wait","arguments":{"seconds":600},"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+mcp.Path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{
				"Authorization": "Bearer " + scout.token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"MCP-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": "inbox_wait",
			} {
				r.Header.Set(name, value)
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				if got, err := http.DefaultClient.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, got.Body)
					_ = got.Body.Close()
				}
			}()
			until(t, "the request to wait", func() bool { return w.Woken.Waiting() == 1 })
			if cancelled {
				scout.post(t, revision, "notifications/cancelled", "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			} else {
				cut()
			}
			until(t, "the wait to end", func() bool { return w.Woken.Waiting() == 0 }) // long before its 600 seconds
			<-over
			cut()
		}
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestWatchedResourcesAreReported(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		w := newWorld(t)
		eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
		id := eliza.offer(t, scout.did, "the first")
		updates := make(chan string, 16)
		options := &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updates <- r.Params.URI }}
		var session *sdk.ClientSession
		if revision == "2026-07-28" {
			session = scout.connect(t, revision, options)
		} else {
			session = overStreams(t, scout.account(), options)
		}
		for _, uri := range []string{"inbox://me", "handoff://" + id} {
			if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "both to be watched", func() bool { return w.Woken.Waiting() == 2 })
		if _, err := scout.account().Take(t.Context(), id, federation.Accept, participant.StepRequest{}, ""); err != nil {
			t.Fatal(err)
		}
		if got := <-updates; got != "handoff://"+id {
			t.Errorf("%s: told of %s", revision, got)
		}
		eliza.offer(t, scout.did, "the second")
		if got := <-updates; got != "inbox://me" {
			t.Errorf("%s: told of %s", revision, got)
		}
		_ = session.Close()
	}
}
