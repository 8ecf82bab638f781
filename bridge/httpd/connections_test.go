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
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/httpd"
)

// patience bounds every wait of these tests; none takes nearly as long.
const patience = time.Minute

// bounded is a server with limits. Its handler answers at once, but for /wait, which it
// answers when the test lets it.
type bounded struct {
	running

	began, finish chan struct{}
	idle          *watched // connections without a request
	mu            sync.Mutex
	closed        map[string]int
}

// watched is a queue of the server with the addresses of its connections.
type watched struct {
	httpd.Queue

	addresses sync.Map
}

func (w *watched) Add(from netip.Prefix, conn net.Conn) {
	w.Queue.Add(from, conn)
	w.addresses.Store(conn.RemoteAddr().String(), true)
}

func (w *watched) Remove(conn net.Conn) {
	w.Queue.Remove(conn)
	w.addresses.Delete(conn.RemoteAddr().String())
}

// awaitIdle waits until the server has noted the end of an answered request.
func (b *bounded) awaitIdle(t *testing.T, c *client) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, idle := b.idle.addresses.Load(c.LocalAddr().String()); idle {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("an answered connection is not idle")
		}
	}
}

// limits returns the limits of a server: of all connections, and of one address.
func (b *bounded) limits(all, each int) *httpd.Limits {
	note := func(why string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.closed[why]++
	}
	return &httpd.Limits{
		Connections: func() int { return all }, PerAddress: func() int { return each }, Network: bridge.Subnet,
		Queue: func() httpd.Queue {
			b.idle = &watched{Queue: bridge.NewEvictionQueue[net.Conn]()} // the last one that the server asks for
			return b.idle
		},
		Closed: func(why httpd.Reason) { note(string(why)) }, Refused: func() { note("refused") },
	}
}

// counts returns how often each limit had something closed or refused.
func (b *bounded) counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func newBounded() *bounded {
	return &bounded{began: make(chan struct{}, 100), finish: make(chan struct{}), closed: map[string]int{}}
}

// ServeHTTP implements [http.Handler].
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/wait" {
		b.began <- struct{}{}
		<-b.finish
	}
	_, _ = io.WriteString(w, "client="+r.RemoteAddr)
}

// serveBounded starts a server with limits of all connections and of one address.
func serveBounded(t *testing.T, all, each int, trusted ...string) *bounded {
	t.Helper()
	b := newBounded()
	cfg := httpd.Config{Limits: b.limits(all, each)}
	for _, p := range trusted {
		cfg.TrustedProxies = append(cfg.TrustedProxies, netip.MustParsePrefix(p))
	}
	b.running = serve(t, cfg, b)
	return b
}

// client is one connection to a server.
type client struct {
	net.Conn

	lines *bufio.Reader
}

// connect opens a connection from an address of loopback.
func (b *bounded) connect(t *testing.T, from string) *client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)), Timeout: patience}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{conn, bufio.NewReader(conn)}
}

// ask sends a request, with more lines of its header.
func (c *client) ask(t *testing.T, path string, header ...string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: gw.example\r\n%s\r\n", path, strings.Join(append(header, ""), "\r\n")); err != nil {
		t.Fatal(err)
	}
}

// answered returns the status of the next answer, 0 if the connection is closed.
func (c *client) answered(t *testing.T) int {
	t.Helper()
	response, err := http.ReadResponse(c.lines, nil)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("neither answered nor closed")
		}
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

func TestConnectionsWithoutRequestAreEvicted(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"silent":             "",
		"in a slow header":   "GET /slow HTTP/1.1\r\nHo",
		"between two of its": "GET / HTTP/1.1\r\nHost: gw.example\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := serveBounded(t, 8, 0)
			var flood []*client
			for i := range 40 {
				c := b.connect(t, fmt.Sprintf("127.0.0.%d", 2+i%4))
				if _, err := io.WriteString(c, first); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(first, "\r\n\r\n") {
					c.answered(t)
					b.awaitIdle(t, c)
				}
				flood = append(flood, c)
			}
			legit := b.connect(t, "127.0.0.1")
			for range 2 { // over one connection
				legit.ask(t, "/")
				if got := legit.answered(t); got != http.StatusOK {
					t.Fatalf("a client is answered %d during the flood", got)
				}
			}
			if got := flood[0].answered(t); got != 0 {
				t.Errorf("the oldest connection is answered %d", got)
			}
			if got := b.counts()["full"]; got != 33 {
				t.Errorf("%d evictions are counted, want 33", got)
			}
		})
	}
}

func TestConnectionsAreBoundedPerAddress(t *testing.T) {
	t.Parallel()
	b := serveBounded(t, 0, 2)
	busy, idle := b.connect(t, "127.0.0.2"), b.connect(t, "127.0.0.2")
	busy.ask(t, "/wait")
	<-b.began
	next := b.connect(t, "127.0.0.2")
	if got := idle.answered(t); got != 0 {
		t.Errorf("the connection without a request is answered %d", got)
	}
	next.ask(t, "/wait")
	<-b.began
	if got := b.connect(t, "127.0.0.2").answered(t); got != 0 {
		t.Errorf("a connection too many is answered %d", got)
	}
	other := b.connect(t, "127.0.0.3")
	other.ask(t, "/")
	if got := other.answered(t); got != http.StatusOK {
		t.Errorf("another address is answered %d", got)
	}
	close(b.finish)
	for _, c := range []*client{busy, next} {
		if got := c.answered(t); got != http.StatusOK {
			t.Errorf("a request in progress is answered %d", got)
		}
	}
	if diff := cmp.Diff(map[string]int{"address": 2}, b.counts()); diff != "" {
		t.Error(diff)
	}
}

func TestConnectionsOfTheHeaviestAddressAreEvictedIfAllAreBusy(t *testing.T) {
	t.Parallel()
	b := serveBounded(t, 4, 0)
	var busy []*client
	for range 4 {
		c := b.connect(t, "127.0.0.2")
		c.ask(t, "/wait")
		<-b.began
		busy = append(busy, c)
	}
	legit := b.connect(t, "127.0.0.1")
	legit.ask(t, "/")
	if got := legit.answered(t); got != http.StatusOK {
		t.Errorf("a client is answered %d", got)
	}
	if got := busy[0].answered(t); got != 0 {
		t.Errorf("the oldest connection of the flood is answered %d", got)
	}
	legit.ask(t, "/wait")
	<-b.began
	if got := b.connect(t, "127.0.0.2").answered(t); got != 0 {
		t.Errorf("one more of the flood is answered %d", got)
	}
	close(b.finish)
	if got := legit.answered(t); got != http.StatusOK {
		t.Errorf("the client is answered %d", got)
	}
}

func TestConnectionsBehindATrustedProxyAreDistinguished(t *testing.T) {
	t.Parallel()
	b := serveBounded(t, 0, 2, "127.0.0.0/8")
	ask := func(client string) *client {
		c := b.connect(t, "127.0.0.1")
		if client == "" {
			c.ask(t, "/wait")
		} else {
			c.ask(t, "/wait", "X-Forwarded-For: "+client)
		}
		return c
	}
	var taken []*client
	for _, from := range []string{"2001:db8::1", "2001:db8::2", "192.0.2.1", "", "", ""} {
		taken = append(taken, ask(from))
		<-b.began
	}
	much := ask("2001:db8::3")
	response, err := http.ReadResponse(much.lines, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "1" || !strings.Contains(string(text), `"rate_limited"`) {
		t.Errorf("the third of one address is answered %d %v %s", response.StatusCode, response.Header, text)
	}
	close(b.finish)
	for _, c := range taken {
		if got := c.answered(t); got != http.StatusOK {
			t.Errorf("answered %d", got)
		}
	}
	again := ask("2001:db8::4") // those before it are over
	if got := again.answered(t); got != http.StatusOK {
		t.Errorf("once they are over: %d", got)
	}
	if diff := cmp.Diff(map[string]int{"refused": 1}, b.counts()); diff != "" {
		t.Error(diff)
	}
}

func TestForwardedAddressIsEmptyWithoutClient(t *testing.T) {
	t.Parallel()
	b := serveBounded(t, 0, 1, "127.0.0.0/8")
	seen, err := get(t.Context(), http.MethodGet, b.url)
	if err != nil || seen.body != "client=" {
		t.Errorf("the handler sees %q, %v", seen.body, err)
	}
}

func TestConnectionsWithBlockedHandlersAreBusy(t *testing.T) {
	t.Parallel()
	b, g := newBounded(), &blocking{requests: make(chan *held)}
	b.running = serve(t, httpd.Config{Limits: b.limits(2, 0)}, g)
	waits, second := b.connect(t, "127.0.0.2"), b.connect(t, "127.0.0.2")
	waits.ask(t, "/wait")
	first := <-g.requests
	legit := b.connect(t, "127.0.0.1") // in place of the second
	if got := second.answered(t); got != 0 {
		t.Errorf("the connection without a request is answered %d", got)
	}
	first.answer("at last")
	if got := waits.answered(t); got != http.StatusOK {
		t.Errorf("the request that waits is answered %d", got)
	}
	legit.ask(t, "/wait") // which leaves that of the first without a request
	last := <-g.requests
	// The server notes the end of the first request after its answer was read: until then there is no room.
	for tries := time.Now(); ; {
		other := b.connect(t, "127.0.0.3")
		other.ask(t, "/now")
		if got := other.answered(t); got == http.StatusOK {
			break
		}
		if time.Since(tries) > patience {
			t.Fatal("a connection without a request makes no room")
		}
	}
	if got := waits.answered(t); got != 0 {
		t.Errorf("it is kept with %d", got)
	}
	last.answer("here")
	if got := legit.answered(t); got != http.StatusOK {
		t.Errorf("answered %d", got)
	}
}

func TestConnectionsInHandshakeAreEvicted(t *testing.T) {
	t.Parallel()
	own := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, and a client that trusts it
	defer own.Close()
	b := newBounded()
	server := httpd.New(httpd.Config{Listen: "127.0.0.1:0", TLS: own.TLS.Clone(), Limits: b.limits(2, 0)}, b, slog.New(slog.DiscardHandler))
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	b.url = "http://" + server.Addr().String()
	silent := []*client{b.connect(t, "127.0.0.2"), b.connect(t, "127.0.0.2")}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+server.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := own.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("status %d, %v", response.StatusCode, err)
	}
	if got := silent[0].answered(t); got != 0 {
		t.Errorf("a handshake is answered %d", got)
	}
	own.Client().CloseIdleConnections()
	stop()
	_ = silent[1].Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
