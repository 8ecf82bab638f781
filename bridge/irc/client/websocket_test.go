package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/bridge/irc/client"
)

// page is a client in a browser.
type page struct {
	conn *websocket.Conn
	kind websocket.MessageType
}

// browse connects a page of an origin. It returns the status of a rejection.
func browse(t *testing.T, addr, origin string, kind websocket.MessageType, protocols ...string) (*page, int) {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), addr+client.Path, &websocket.DialOptions{
		Subprotocols: protocols, HTTPHeader: http.Header{"Origin": {origin}},
	})
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	if err != nil {
		return nil, response.StatusCode
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &page{conn: conn, kind: kind}, http.StatusSwitchingProtocols
}

func (p *page) say(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := p.conn.Write(t.Context(), p.kind, []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
}

// until returns the first message that matches a pattern. Each must be of the kind that the page
// asked for.
func (p *page) until(t *testing.T, pattern string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		kind, message, err := p.conn.Read(ctx)
		if err != nil {
			t.Fatalf("wait for %q: %v", pattern, err)
		}
		if kind != p.kind || strings.ContainsAny(string(message), "\r\n") {
			t.Errorf("%s message %q", kind, message)
		}
		if matches(pattern, string(message)) {
			return string(message)
		}
	}
}

// startWeb runs a listener that speaks WebSocket, and returns the address of that.
func startWeb(t *testing.T, wanted bool) (*house, string) {
	t.Helper()
	cfg := testConfig()
	cfg.WebSocket = wanted
	h := start(t, cfg, func(d *client.Deps) { d.HTTP.Origins = []string{"https://app.example"} })
	server := httptest.NewServer(h.link)
	t.Cleanup(server.Close)
	return h, server.URL
}

const app = "https://app.example"

func TestWebSocketMessageIsALine(t *testing.T) {
	t.Parallel()
	for protocol, kind := range map[string]websocket.MessageType{
		"text.ircv3.net": websocket.MessageText, "binary.ircv3.net": websocket.MessageBinary, "": websocket.MessageText,
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			h, addr := startWeb(t, true)
			p, _ := browse(t, addr, app, kind, strings.Fields(protocol)...)
			if got := p.conn.Subprotocol(); got != protocol {
				t.Errorf("it speaks %q", got)
			}
			p.say(t, "NICK page", "USER page 0 * :A page")
			p.until(t, ":gw.example 376 *")
			other := play(t, h, "bob joins")["bob"]
			other.say(t, "PRIVMSG page :ü")
			p.until(t, ":bob!*PRIVMSG page :ü")
			p.say(t, "PRIVMSG bob :back\r\n")
			other.until(t, "*PRIVMSG bob :back")
			p.say(t, "PRIVMSG bob :"+strings.Repeat("x", 1<<20))
			p.until(t, ":gw.example 417 page *")
			p.say(t, "PING still")
			p.until(t, "*PONG*still")
			p.say(t, "QUIT :bye")
			p.until(t, "ERROR *bye")
			if _, _, err := p.conn.Read(t.Context()); err == nil {
				t.Error("it is not hung up on")
			}
		})
	}
}

func TestWebSocketRefusesInvalidUTF8(t *testing.T) {
	t.Parallel()
	_, addr := startWeb(t, true)
	p, _ := browse(t, addr, app, websocket.MessageBinary, "binary.ircv3.net")
	p.say(t, "NICK page", "USER page 0 * :A page")
	p.until(t, ":gw.example 376 *")
	p.say(t, "PRIVMSG page :\xff")
	p.until(t, "*INVALID_UTF8*")
	p.say(t, "PRIVMSG page :a\nQUIT")
	p.until(t, "*INVALID_MESSAGE*")
}

func TestWebSocketRefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	_, addr := startWeb(t, true)
	if _, status := browse(t, addr, "https://elsewhere.example", websocket.MessageText); status != http.StatusForbidden {
		t.Errorf("a page of elsewhere is answered %d", status)
	}
}

func TestWebSocketNeedsItsConfiguration(t *testing.T) {
	t.Parallel()
	_, addr := startWeb(t, false)
	if _, status := browse(t, addr, app, websocket.MessageText); status != http.StatusNotFound {
		t.Errorf("answered %d", status)
	}
}

func TestWebSocketOfAStoppedListenerIsUnavailable(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.WebSocket = true
	server := httptest.NewServer(open(t, cfg).link)
	t.Cleanup(server.Close)
	if _, status := browse(t, server.URL, server.URL, websocket.MessageText); status != http.StatusServiceUnavailable {
		t.Errorf("answered %d", status)
	}
}

func TestWebSocketClosesAtShutdown(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.WebSocket = true
	h := open(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.link.Run(ctx, func() { close(up) }) }()
	<-up
	server := httptest.NewServer(h.link)
	t.Cleanup(server.Close)
	p, _ := browse(t, server.URL, server.URL, websocket.MessageText)
	p.say(t, "NICK page", "USER page 0 * :A page")
	p.until(t, ":gw.example 376 *")
	cancel()
	p.until(t, "ERROR *the gateway ends")
	if err := <-ended; err == nil {
		t.Error("it does not say why it ended")
	}
}
