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
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"baton/bridge/httpd"
)

// held is an answer that its handler has left.
type held struct {
	http.ResponseWriter

	end  func()
	gone chan struct{}
}

// answer completes it with a text.
func (h *held) answer(text string) {
	h.Header().Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = io.WriteString(h, text) // a client that is gone is what some tests are about
	h.end()
}

// garage parks what it is asked, and says whether the error is the one that it should be
// where that cannot be. At /now it answers at once.
type garage struct {
	parked chan *held
	conns  chan net.Conn
	log    *lockedBuffer
	stop   context.CancelFunc
}

// ServeHTTP implements [http.Handler].
func (g *garage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/now" {
		_, _ = fmt.Fprint(w, "now, over TLS ", r.TLS != nil)
		return
	}
	h := &held{gone: make(chan struct{})}
	var err error
	w.Header().Set("X-Kept", "yes")
	if r.URL.Path == "/last" {
		w.Header().Set("Connection", "close")
	}
	h.ResponseWriter, h.end, err = w.(interface {
		Park(gone func()) (http.ResponseWriter, func(), error)
	}).Park(func() { close(h.gone) })
	if err != nil {
		_, _ = fmt.Fprint(w, errors.Is(err, errors.ErrUnsupported))
		return
	}
	g.parked <- h
}

// Accept implements [net.Listener].
func (g *garage) Accept() (net.Conn, error) {
	conn, open := <-g.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close implements [net.Listener].
func (g *garage) Close() error { close(g.conns); return nil }

// Addr implements [net.Listener].
func (*garage) Addr() net.Addr { return &net.TCPAddr{} }

// overTCP is one end of a pipe that is taken for TCP.
type overTCP struct{ net.Conn }

func (overTCP) LocalAddr() net.Addr { return &net.TCPAddr{} }

// newGarage returns a server on pipes in a bubble, which stops in the end.
func newGarage(t *testing.T) *garage {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	g := &garage{parked: make(chan *held), conns: make(chan net.Conn), log: &lockedBuffer{}, stop: stop}
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

func (g *garage) dial() *caller {
	near, far := net.Pipe()
	g.conns <- overTCP{far}
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

// hear returns the next answer as text: its status, body, and "closed" or "chunked" where
// it is that.
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

// isClosed reports whether the server has closed a connection.
func (c *caller) isClosed() bool {
	_, err := c.lines.ReadByte()
	return errors.Is(err, io.EOF)
}

func TestAnAnswerGoesOnWhenItsHandlerHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		c := g.dial()
		defer c.Close()
		for before := range 3 { // on the same connection
			logged := func() int {
				synctest.Wait()
				return strings.Count(g.log.String(), "path=/stream status=200 took=1m0s")
			}
			c.ask(t, "GET /stream HTTP/1.1")
			h := <-g.parked
			if logged() != before {
				t.Errorf("logged before it was answered: %s", g.log)
			}
			go func() {
				time.Sleep(time.Minute)
				for _, text := range []string{"one ", "", strings.Repeat("x", 20)} {
					_, _ = io.WriteString(h, text)
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
			if got := c.hear(t); got != "200 OK now, over TLS false" {
				t.Errorf("then heard %q", got)
			}
		}
	})
}

func TestARequestThatCameEarlyIsAnsweredAfterTheParkedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		c := g.dial()
		defer c.Close()
		go c.ask(t, "GET /first HTTP/1.1\r\nHost: gw.example\r\n\r\nGET /now HTTP/1.1")
		first := <-g.parked
		go c.ask(t, "GET /second HTTP/1.1")
		synctest.Wait()
		go first.answer("first")
		if got := c.hear(t); got != "200 OK first" {
			t.Errorf("heard %q", got)
		}
		if got := c.hear(t); got != "200 OK now, over TLS false" {
			t.Errorf("second heard %q", got)
		}
		go (<-g.parked).answer("second")
		if got := c.hear(t); got != "200 OK second" {
			t.Errorf("third heard %q", got)
		}
	})
}

func TestWhoeverParksIsToldThatTheClientLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		c := g.dial()
		c.ask(t, "GET /wait HTTP/1.1")
		h := <-g.parked
		synctest.Wait()
		select {
		case <-h.gone:
			t.Error("told before it left")
		default:
		}
		c.Close()
		<-h.gone
		if _, err := io.WriteString(h, "for nobody"); err == nil {
			t.Error("somebody took it")
		}
		h.end()
	})
}

func TestAConnectionEndsWithAnAnswerThatSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		for request, extra := range map[string]string{"GET /last HTTP/1.1": "", "GET /asked HTTP/1.1\r\nConnection: close": ""} {
			c := g.dial()
			c.ask(t, request)
			h := <-g.parked
			c.ask(t, "GET /dropped HTTP/1.1"+extra)
			go h.answer("last")
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

func TestAnAnswerThatIsNotCompleteIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		for name, write := range map[string]func(h *held){
			"nothing": func(*held) {},
			"too little": func(h *held) {
				h.Header().Set("Content-Length", "9")
				_, _ = io.WriteString(h, "short")
			},
			"too much": func(h *held) {
				h.Header().Set("Content-Length", "3")
				if _, err := io.WriteString(h, "long"); !errors.Is(err, http.ErrContentLength) {
					t.Errorf("too much is written: %v", err)
				}
			},
		} {
			c := g.dial()
			c.ask(t, "GET /wait HTTP/1.1")
			h := <-g.parked
			go func() { write(h); h.end() }()
			text, err := io.ReadAll(c)
			if err != nil || strings.Contains(string(text), "long") {
				t.Errorf("%s: heard %q, %v", name, text, err)
			}
			c.Close()
		}
	})
}

func TestAClientThatReadsNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		c := g.dial()
		defer c.Close()
		c.ask(t, "GET /wait HTTP/1.1")
		h := <-g.parked
		begun := time.Now()
		h.answer("unread")
		if took := time.Since(begun); took != 2*time.Minute {
			t.Errorf("it is waited for %s", took)
		}
		if !c.isClosed() {
			t.Error("the connection goes on")
		}
	})
}

func TestAConnectionWithoutANextRequestIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		c := g.dial()
		defer c.Close()
		c.ask(t, "GET /wait HTTP/1.1")
		go (<-g.parked).answer("x")
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

func TestAServerThatStopsWaitsForWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		waits, idle, never := g.dial(), g.dial(), g.dial()
		for _, c := range []*caller{waits, idle, never} {
			defer c.Close()
		}
		idle.ask(t, "GET /idle HTTP/1.1")
		go (<-g.parked).answer("x")
		idle.hear(t)
		waits.ask(t, "GET /waits HTTP/1.1")
		answered := <-g.parked
		never.ask(t, "GET /never HTTP/1.1")
		unanswered := <-g.parked
		synctest.Wait()
		begun := time.Now()
		g.stop()
		if !idle.isClosed() || time.Since(begun) != 0 {
			t.Errorf("nothing is owed to a connection that is closed after %s", time.Since(begun))
		}
		time.Sleep(7 * time.Second)
		go answered.answer("in time")
		if got := waits.hear(t); got != "200 OK in time closed" {
			t.Errorf("heard %q", got)
		}
		<-unanswered.gone
		if took := time.Since(begun); took != 8*time.Second {
			t.Errorf("cut off after %s", took)
		}
		unanswered.end()
	})
}

func TestOnlyConnectionsThatHaveOneRequestAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGarage(t)
		for _, request := range []string{
			"POST /odd HTTP/1.1", "GET /odd HTTP/1.0", "GET /odd HTTP/1.1\r\nContent-Length: 1",
			"GET /odd HTTP/1.1\r\nTransfer-Encoding: chunked",
		} {
			c := g.dial()
			go c.ask(t, request)
			if got := c.hear(t); !strings.HasPrefix(got, "200 OK true") {
				t.Errorf("%q is answered %s", request, got)
			}
			c.Close()
		}
	})
}

func TestAConnectionOverTLSGoesOnAsOne(t *testing.T) {
	g := &garage{parked: make(chan *held, 1)}
	own := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, and a client that trusts it
	defer own.Close()
	server := httpd.New(httpd.Config{Listen: "127.0.0.1:0", TLS: own.TLS.Clone()}, g, slog.New(slog.DiscardHandler))
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	client := own.Client()
	dials := 0
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	for _, path := range []string{"/wait", "/wait", "/now"} {
		go func() {
			if path == "/wait" {
				(<-g.parked).answer("parked")
			}
		}()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+server.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"/wait": "parked", "/now": "now, over TLS true"}[path]; string(text) != want {
			t.Errorf("%s is answered %q", path, text)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections", dials)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
