package client_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/pires/go-proxyproto"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/irc/client"
)

// within gives a listener limits.
func within(limits bridge.Limits) func(*client.Deps) {
	limits.MaxDeadline = 720 * time.Hour
	return func(d *client.Deps) { d.Limits = limits }
}

// defaults are the limits of an empty configuration.
func defaults() func(*client.Deps) {
	return within(bridge.Limits{ConnectionsPerAddress: 32, UnregisteredConnections: 256})
}

// elsewhere is a connection from another machine.
type elsewhere struct {
	net.Conn

	remote net.Addr
}

// RemoteAddr implements net.Conn.
func (e elsewhere) RemoteAddr() net.Addr { return e.remote }

// come connects a client from an address.
func (h *house) come(t *testing.T, from string) *peer {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	h.link.Attach(t.Context(), elsewhere{there, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))})
	return &peer{conn: here, lines: bufio.NewReader(here)}
}

// lingers connects an admitted client that does not register.
func (h *house) lingers(t *testing.T, from string) *peer {
	t.Helper()
	p := h.come(t, from)
	p.say(t, "PING here")
	p.until(t, "*PONG*")
	return p
}

// drain reads everything sent to a client, so that it is never a slow reader.
func (p *peer) drain(running *sync.WaitGroup) {
	running.Go(func() {
		for {
			if _, err := p.lines.ReadString('\n'); err != nil {
				return
			}
		}
	})
}

func TestAdmissionSurvivesFloodsOfSilentConnections(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]func(i int) string{
		"of four IPv4 addresses": func(i int) string { return fmt.Sprintf("192.0.2.%d:%d", i%4, 1000+i) },
		"of one IPv6 /64":        func(i int) string { return fmt.Sprintf("[2001:db8::%x]:6667", i+1) },
		"of a thousand networks": func(i int) string { return fmt.Sprintf("[2001:db8:%x::1]:6667", i+1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, testConfig(), defaults())
			var reading sync.WaitGroup
			defer reading.Wait()
			for i := range 1000 {
				p := h.come(t, from(i))
				p.drain(&reading)
				defer func() { _ = p.conn.Close() }()
				if i%100 == 0 { // during the flood
					h.come(t, fmt.Sprintf("198.51.100.%d:1", i/100)).register(t, fmt.Sprintf("legit%d", i/100), "")
				}
			}
			ada := h.come(t, "203.0.113.1:1")
			ada.login(t)
		})
	}
}

func TestAdmissionEvictsTheOldestOfTheHeaviestAddress(t *testing.T) {
	t.Parallel()
	var metrics *bridge.Metrics
	h := start(t, testConfig(), within(bridge.Limits{ConnectionsPerAddress: 8, UnregisteredConnections: 4}), func(d *client.Deps) { metrics = d.Metrics })
	alone := h.lingers(t, "192.0.2.1:1")
	first, second := h.lingers(t, "192.0.2.2:1"), h.lingers(t, "192.0.2.2:2")
	h.lingers(t, "192.0.2.2:3")
	newest := h.lingers(t, "192.0.2.3:1")
	first.until(t, "ERROR :Closing link: too many connections are not registered yet")
	h.lingers(t, "192.0.2.4:1")
	second.until(t, "ERROR :Closing link: too many connections are not registered yet")
	for _, p := range []*peer{alone, newest} {
		p.say(t, "PING still")
		p.until(t, "*PONG*still")
	}
	if n := testutil.ToFloat64(metrics.Closed.WithLabelValues("client", "unregistered")); n != 2 {
		t.Errorf("%v evictions are counted, want 2", n)
	}
}

func TestAdmissionBoundsConnectionsPerAddress(t *testing.T) {
	t.Parallel()
	var metrics *bridge.Metrics
	h := start(t, testConfig(), within(bridge.Limits{ConnectionsPerAddress: 3}), func(d *client.Deps) { metrics = d.Metrics })
	h.come(t, "[2001:db8::1]:1").register(t, "a", "")
	h.come(t, "[2001:db8::2]:1").register(t, "b", "")
	idle := h.lingers(t, "[2001:db8::3]:1")
	h.come(t, "[2001:db8::4]:1").register(t, "c", "") // in place of the idle one
	idle.until(t, "ERROR :Closing link: too many connections from your address")
	h.come(t, "[2001:db8::5]:1").until(t, "ERROR :Closing link: too many connections from your address")
	h.come(t, "[2001:db8:0:1::1]:1").register(t, "neighbour", "")
	play(t, h, "near joins") // loopback has a share of its own
	if n := testutil.ToFloat64(metrics.Closed.WithLabelValues("client", "address")); n != 2 {
		t.Errorf("%v closed connections are counted, want 2", n)
	}
}

func TestAdmissionTreatsLoopbackLikeAnyAddress(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig(), within(bridge.Limits{ConnectionsPerAddress: 2}))
	play(t, h, "a joins\nb joins")
	dial(t, h.addr).until(t, "ERROR :Closing link: too many connections from your address")
}

func TestAdmissionEvictsUnregisteredOnAFullServer(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.MaxClients = 2
	h := start(t, cfg)
	play(t, h, "a joins")
	idle := h.lingers(t, "192.0.2.1:1")
	h.come(t, "192.0.2.2:1").register(t, "b", "")
	idle.until(t, "ERROR :Closing link: too many connections are not registered yet")
	h.come(t, "192.0.2.3:1").until(t, "ERROR :Closing link: this server is full")
}

func TestAdmissionEvictsAHandshakeAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, secured(), within(bridge.Limits{UnregisteredConnections: 1}))
	witness := h.overTLS(t)
	witness.register(t, "witness", "")
	silent := h.halfOpen(t)
	witness.awaitUnregistered(t)
	h.overTLS(t).register(t, "ada", "")
	if err := awaitEnd(silent); err != nil {
		t.Error(err)
	}
}

// awaitUnregistered waits until the server counts an unregistered connection.
func (p *peer) awaitUnregistered(t *testing.T) {
	t.Helper()
	for {
		p.say(t, "LUSERS")
		for line := ""; !matches("* 254 *", line); { // 253 comes before it, if at all
			if line = p.hear(t); matches("* 253 *", line) {
				return
			}
		}
	}
}

func TestAdmissionSurvivesAFloodOfWebSockets(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.WebSocket = true
	h := start(t, cfg, defaults())
	server := httptest.NewServer(h.link)
	t.Cleanup(server.Close)
	for range 300 {
		if _, status := browse(t, server.URL, server.URL, websocket.MessageText); status != 101 {
			t.Fatalf("answered %d", status)
		}
	}
	p, _ := browse(t, server.URL, server.URL, websocket.MessageText)
	p.say(t, "NICK page", "USER page 0 * :A page")
	p.until(t, ":gw.example 376 *")
}

func TestLoginIsRateLimitedByAddress(t *testing.T) {
	t.Parallel()
	var metrics *bridge.Metrics
	h := start(t, testConfig(), func(d *client.Deps) {
		d.Logins, metrics = credential.NewAddresses(func() int { return 4 }, time.Hour), d.Metrics
	})
	attempt := func(p *peer) string {
		p.say(t, "AUTHENTICATE ATPROTO-CHALLENGE")
		if line := p.hear(t); !strings.HasPrefix(line, "AUTHENTICATE ") {
			return line
		}
		p.say(t, answerTo(string(ada), "forged"))
		return p.hear(t)
	}
	first, second := h.come(t, "192.0.2.1:1"), h.come(t, "192.0.2.1:2")
	for i, p := range []*peer{first, first, second, second} {
		if got := attempt(p); !strings.HasSuffix(got, "904 * :SASL authentication failed: the signature is not by a key of the DID") {
			t.Errorf("attempt %d is answered %q", i, got)
		}
	}
	if got := attempt(first); got != ":gw.example NOTICE * :AUTHENTICATE RATE_LIMITED * too many steps; wait a little" {
		t.Errorf("one attempt more is answered %q", got)
	}
	first.until(t, ":gw.example 904 * :SASL authentication failed: too many logins from your address; wait a little")
	if n := testutil.ToFloat64(metrics.Limited.WithLabelValues("client")); n != 1 {
		t.Errorf("%v are counted, want 1", n)
	}
	h.come(t, "192.0.2.2:1").login(t)
}

// proxied connects a client through a proxy on this machine.
func (h *house) proxied(t *testing.T, from string) *peer {
	t.Helper()
	p := dial(t, h.addr)
	if from != "" {
		header := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)), p.conn.RemoteAddr())
		if _, err := header.WriteTo(p.conn); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestProxyHeaderOfATrustedProxyIsRead(t *testing.T) {
	t.Parallel()
	trusted := func(d *client.Deps) { d.HTTP.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	h := start(t, testConfig(), within(bridge.Limits{ConnectionsPerAddress: 1}), trusted)
	h.proxied(t, "192.0.2.1:1000").register(t, "a", "")
	h.proxied(t, "192.0.2.1:1001").until(t, "ERROR :Closing link: too many connections from your address")
	h.proxied(t, "192.0.2.2:1000").register(t, "b", "")
	for i := range 3 { // it names none, and its clients cannot be told apart
		h.proxied(t, "").register(t, fmt.Sprint("c", i), "")
	}
}

func TestProxyHeaderOfAStrangerIsIgnored(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig(), within(bridge.Limits{ConnectionsPerAddress: 1}))
	dial(t, h.addr).register(t, "a", "")
	p := dial(t, h.addr)
	p.say(t, "PROXY TCP4 192.0.2.9 127.0.0.1 1000 6667")
	p.until(t, "ERROR :Closing link: too many connections from your address")
}

func TestProxyConnectionEndsWithTheListener(t *testing.T) {
	t.Parallel()
	h := open(t, testConfig(), func(d *client.Deps) { d.HTTP.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	ctx, cancel := context.WithCancel(t.Context())
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.link.Run(ctx, func() { close(up) }) }()
	<-up
	dial(t, h.link.Describe().Negotiated["listen"])
	began := time.Now()
	cancel()
	<-ended
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the end took %s", took)
	}
}
