package httpd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/httpd"
)

// held is a request whose handler blocks.
type held struct {
	http.ResponseWriter

	left     <-chan struct{} // closed when the client has left
	answered chan struct{}
}

// answer completes it with a text.
func (h *held) answer(text string) {
	h.Header().Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = io.WriteString(h, text) // in some tests the client has left
	h.end()
}

// end lets the handler return.
func (h *held) end() { close(h.answered) }

// blocking is a handler that passes its requests to the test and blocks. It answers /now at
// once.
type blocking struct {
	requests chan *held
	conns    chan net.Conn
	log      *lockedBuffer
	stop     context.CancelFunc
}

// ServeHTTP implements [http.Handler].
func (g *blocking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/now" {
		_, _ = fmt.Fprint(w, "now")
		return
	}
	if r.URL.Path == "/last" {
		w.Header().Set("Connection", "close")
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Now().Add(2 * time.Minute))
	h := &held{w, r.Context().Done(), make(chan struct{})}
	g.requests <- h
	<-h.answered
}

// Accept implements [net.Listener].
func (g *blocking) Accept() (net.Conn, error) {
	conn, open := <-g.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close implements [net.Listener].
func (g *blocking) Close() error { close(g.conns); return nil }

// Addr implements [net.Listener].
func (*blocking) Addr() net.Addr { return &net.TCPAddr{} }

// newBlocking returns a server on pipes in a bubble, which stops in the end.
func newBlocking(t *testing.T) *blocking {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	g := &blocking{requests: make(chan *held), conns: make(chan net.Conn), log: &lockedBuffer{}, stop: stop}
	server := httpd.New(httpd.Config{}, g, slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	stopped := make(chan error, 1)
	go func() { stopped <- server.ServeOn(ctx, g) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	return g
}

// caller is a client with one connection.
type caller struct {
	net.Conn

	lines *bufio.Reader
}

func (g *blocking) dial() *caller {
	near, far := net.Pipe()
	g.conns <- far
	return &caller{near, bufio.NewReader(near)}
}

// ask sends the first line of a request, and no other.
func (c *caller) ask(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c, line+"\r\nHost: gw.example\r\n\r\n"); err != nil {
			t.Error(err)
		}
	}
}

// hear returns the next answer as text: its status, body, and "closed" or "chunked" if
// so.
func (c *caller) hear(t *testing.T) string {
	t.Helper()
	response, err := http.ReadResponse(c.lines, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.Header.Get("Date") == "" {
		t.Errorf("no date: %v", response.Header)
	}
	words := []string{response.Status, string(text)}
	if response.Close {
		words = append(words, "closed")
	}
	return strings.Join(append(words, response.TransferEncoding...), " ")
}

// isClosedAfter reports whether the server closes a connection by itself within a time, in
// which the client reads nothing.
func (c *caller) isClosedAfter(within time.Duration) bool {
	time.Sleep(within)
	synctest.Wait()
	return c.isClosed()
}

func (c *caller) isClosed() bool {
	_, err := c.lines.ReadByte()
	return errors.Is(err, io.EOF)
}

func TestWaitLetsAHandlerAnswerLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBlocking(t)
		c := g.dial()
		defer c.Close()
		for before := range 3 { // on the same connection
			logged := func() int {
				synctest.Wait()
				return strings.Count(g.log.String(), "path=/stream status=200 took=1m0s")
			}
			c.ask(t, "GET /stream HTTP/1.1")
			h := <-g.requests
			if logged() != before {
				t.Errorf("logged before it was answered: %s", g.log)
			}
			go func() {
				time.Sleep(time.Minute)
				for _, text := range []string{"one ", "", strings.Repeat("x", 20)} {
					_, _ = io.WriteString(h, text)
					_ = http.NewResponseController(h.ResponseWriter).Flush()
				}
				h.end()
			}()
			if got, want := c.hear(t), "200 OK one "+strings.Repeat("x", 20)+" chunked"; got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
			if logged() != before+1 || strings.Count(g.log.String(), "path=/stream") != before+1 {
				t.Errorf("logged %s", g.log)
			}
			c.ask(t, "GET /now HTTP/1.1")
			if got := c.hear(t); got != "200 OK now" {
				t.Errorf("then heard %q", got)
			}
		}
	})
}

func TestWaitAnswersPipelinedRequestsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBlocking(t)
		c := g.dial()
		defer c.Close()
		go c.ask(t, "GET /first HTTP/1.1\r\nHost: gw.example\r\n\r\nGET /now HTTP/1.1")
		first := <-g.requests
		go c.ask(t, "GET /second HTTP/1.1")
		synctest.Wait()
		go first.answer("first")
		if got := c.hear(t); got != "200 OK first" {
			t.Errorf("heard %q", got)
		}
		if got := c.hear(t); got != "200 OK now" {
			t.Errorf("second heard %q", got)
		}
		go (<-g.requests).answer("second")
		if got := c.hear(t); got != "200 OK second" {
			t.Errorf("third heard %q", got)
		}
	})
}

func TestWaitEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBlocking(t)
		c := g.dial()
		c.ask(t, "GET /wait HTTP/1.1")
		h := <-g.requests
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-h.left:
			t.Error("it ended before")
		default:
		}
		c.Close()
		<-h.left
		h.end()
	})
}

func TestConnectionCloseEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBlocking(t)
		for _, request := range []string{"GET /last HTTP/1.1", "GET /asked HTTP/1.1\r\nConnection: close"} {
			c := g.dial()
			c.ask(t, request)
			go (<-g.requests).answer("last")
			if got := c.hear(t); got != "200 OK last closed" {
				t.Errorf("heard %q", got)
			}
			if !c.isClosed() {
				t.Errorf("%s: the connection goes on", request)
			}
			c.Close()
		}
	})
}

func TestWriteTimesOutForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBlocking(t)
		c := g.dial()
		defer c.Close()
		c.ask(t, "GET /wait HTTP/1.1")
		h := <-g.requests
		begun := time.Now()
		h.answer("unread")
		if !c.isClosedAfter(2 * time.Minute) {
			t.Errorf("the connection goes on after %s", time.Since(begun))
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBlocking(t)
		c := g.dial()
		defer c.Close()
		c.ask(t, "GET /wait HTTP/1.1")
		go (<-g.requests).answer("x")
		c.hear(t)
		begun := time.Now()
		if !c.isClosed() {
			t.Error("something comes")
		}
		if took := time.Since(begun); took != 2*time.Minute {
			t.Errorf("closed after %s", took)
		}
	})
}

func TestShutdownWaitsForBlockedHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newBlocking(t)
		waits, idle, never := g.dial(), g.dial(), g.dial()
		for _, c := range []*caller{waits, idle, never} {
			defer c.Close()
		}
		idle.ask(t, "GET /idle HTTP/1.1")
		go (<-g.requests).answer("x")
		idle.hear(t)
		waits.ask(t, "GET /waits HTTP/1.1")
		answered := <-g.requests
		never.ask(t, "GET /never HTTP/1.1")
		unanswered := <-g.requests
		synctest.Wait()
		begun := time.Now()
		g.stop()
		if !idle.isClosed() || time.Since(begun) != 0 {
			t.Errorf("a connection without a request is closed after %s", time.Since(begun))
		}
		time.Sleep(7 * time.Second)
		go answered.answer("in time")
		if got := waits.hear(t); got != "200 OK in time closed" {
			t.Errorf("heard %q", got)
		}
		<-unanswered.left
		if took := time.Since(begun); took != 8*time.Second {
			t.Errorf("cut off after %s", took)
		}
		unanswered.end()
	})
}
