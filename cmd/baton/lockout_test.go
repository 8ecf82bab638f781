package main_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	main "github.com/baton-gateway/baton/cmd/baton"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
)

// promptly is how long a client may need to log in while others attack.
const promptly = 2 * time.Second

// dialFrom connects from an address of loopback: each is a client of its own.
func dialFrom(t *testing.T, from, addr string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)), Timeout: patience}
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// clientFrom asks over HTTP from an address of loopback.
func clientFrom(t *testing.T, from string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)), Timeout: patience}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// ircLines is an IRC client as a test types it, over whatever carries lines.
type ircLines struct {
	say  func(line string) error
	hear func() (string, error)
}

func overConn(conn net.Conn) ircLines {
	lines := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(patience))
	return ircLines{
		say:  func(line string) error { _, err := conn.Write([]byte(line + "\r\n")); return err },
		hear: func() (string, error) { line, err := lines.ReadString('\n'); return strings.TrimSpace(line), err },
	}
}

func overSocket(ctx context.Context, conn *websocket.Conn) ircLines {
	return ircLines{
		say:  func(line string) error { return conn.Write(ctx, websocket.MessageText, []byte(line)) },
		hear: func() (string, error) { _, line, err := conn.Read(ctx); return string(line), err },
	}
}

// until returns the first line with a text in it.
func (c ircLines) until(t *testing.T, text string) string {
	t.Helper()
	for {
		line, err := c.hear()
		if err != nil {
			t.Fatalf("wait for %q: %v", text, err)
		}
		if strings.Contains(line, text) {
			return line
		}
		if strings.HasPrefix(line, "ERROR ") {
			t.Fatalf("wait for %q: told %q", text, line)
		}
	}
}

func (c ircLines) says(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := c.say(line); err != nil {
			t.Fatal(err)
		}
	}
}

// login proves a fresh did:key and registers, and returns the DID.
func (c ircLines) login(t *testing.T, nick string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	did := string(identity.KeyDID(public))
	c.says(t, "CAP REQ :message-tags standard-replies", "AUTHENTICATE ATPROTO-CHALLENGE")
	_, text, _ := strings.Cut(c.until(t, "AUTHENTICATE "), "AUTHENTICATE ")
	challenge, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := json.Marshal(map[string]string{"did": did, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, challenge))})
	if err != nil {
		t.Fatal(err)
	}
	c.says(t, "AUTHENTICATE "+base64.StdEncoding.EncodeToString(proof))
	c.until(t, " 903 ")
	c.says(t, "NICK "+nick, "USER "+nick+" 0 * :x", "CAP END")
	c.until(t, " 376 ")
	return did
}

// withinTime fails if an operation exceeds a client's timeout in each of three attempts. A flood
// delays all of them, other load on the machine only one or two.
func withinTime(t *testing.T, what string, do func(try int)) {
	t.Helper()
	var took [3]time.Duration
	for try := range took {
		began := time.Now()
		do(try)
		if took[try] = time.Since(began); took[try] <= promptly {
			return
		}
	}
	t.Errorf("%s took %s, want at most %s", what, took, promptly)
}

// trustLoopback makes the proxies of a gateway those on this machine.
func (h *house) trustLoopback(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	trusting := strings.Replace(string(text), "[http]\n", "[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n", 1)
	if err := os.WriteFile(h.config, []byte(trusting), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLockoutBySilentIRCConnectionsFails(t *testing.T) {
	t.Parallel()
	addr := federationtest.FreeAddr(t)
	h := newHouse(t, fmt.Sprintf("[irc.client]\nlisten = %q\n", addr))
	h.start(t)
	h.ready(t)
	for i := range 4 * 64 {
		lingers := overConn(dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i%4), addr))
		lingers.says(t, "PING here") // and no more
		lingers.until(t, "PONG")
	}
	withinTime(t, "a login during the flood", func(try int) {
		overConn(dialFrom(t, "127.0.0.1", addr)).login(t, fmt.Sprintf("ada%d", try))
	})
	if n := h.counters(t)[`baton_connections_closed_total{listener="client",reason="address"}`]; n != 4*32 {
		t.Errorf("%v connections above the share of an address are counted, want %d", n, 4*32)
	}
}

func TestLockoutBySilentWebSocketsFails(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[irc.client]\nwebsocket = true\n")
	h.trustLoopback(t)
	h.start(t)
	h.ready(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	connect := func(from string) *websocket.Conn {
		conn, response, err := websocket.Dial(ctx, "ws://"+h.public+"/irc", &websocket.DialOptions{HTTPHeader: http.Header{"X-Forwarded-For": {from}}})
		if response != nil && response.Body != nil {
			_ = response.Body.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.CloseNow() })
		return conn
	}
	for i := range 256 {
		connect(fmt.Sprintf("2001:db8::%x", i+1))
	}
	withinTime(t, "a login during the flood", func(try int) {
		overSocket(ctx, connect("192.0.2.1")).login(t, fmt.Sprintf("ada%d", try))
	})
}

func TestLockoutByIdleHTTPConnectionsFails(t *testing.T) {
	t.Parallel()
	const files = 256
	h := newHouse(t)
	h.binary = filepath.Join(t.TempDir(), "few")
	if err := os.WriteFile(h.binary, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", files, program), 0o700); err != nil {
		t.Fatal(err)
	}
	h.start(t)
	h.ready(t)
	for i := range 3 * 200 {
		dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i%3), h.public)
	}
	withinTime(t, "a login and an offer during the flood", func(int) {
		ada := logIn(t, h.url())
		ada.offer(t, map[string]any{"to": "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb", "title": "Cite the sources"})
	})
	if status, text := h.ask(t, "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz answers %d %s", status, text)
	}
	if n := h.counters(t)[`baton_connections_closed_total{listener="http",reason="full"}`]; n < 3*200-files {
		t.Errorf("%v connections above the limit are counted, want at least %d", n, 3*200-files)
	}
	if open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.process.Process.Pid)); err != nil || len(open) > files*3/4 {
		t.Errorf("%d files are open of %d, %v", len(open), files, err)
	}
}

// forged returns a step that a DID has not signed.
func forged(did string) string {
	id := ulid.Make().String()
	return fmt.Sprintf("@+freeq.at/handoff=offer;+freeq.at/handoff-id=%s;+freeq.at/handoff-from=%s;+freeq.at/handoff-to=did:plc:bbbbbbbbbbbbbbbbbbbbbbbb;"+
		"+freeq.at/handoff-task=x;+freeq.at/sig=ed25519:%s TAGMSG #ops", id, did, base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SignatureSize)))
}

func TestRateIsSharedByAllListeners(t *testing.T) {
	t.Parallel()
	addr := federationtest.FreeAddr(t)
	h := newHouse(t, fmt.Sprintf("[irc.client]\nlisten = %q\n[limits]\naddress_events_per_minute = 6\n", addr))
	h.start(t)
	h.ready(t)
	offer := map[string]any{"to": "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb", "title": "Cite the sources"}
	status := func(client *http.Client) (int, string) {
		response, err := client.Do(logIn(t, h.url()).request(t, http.MethodPost, "handoffs", offer)) // a DID each
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode, response.Header.Get("Retry-After")
	}
	near, far := clientFrom(t, "127.0.0.1"), clientFrom(t, "127.0.0.2")
	for range 2 {
		if got, _ := status(near); got != http.StatusCreated {
			t.Fatalf("an offer over REST is answered %d", got)
		}
	}
	scout := bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))
	planner := bridgetest.NewAgent(h.url(), "planner", append(make([]byte, 31), 1))
	for _, a := range []*bridgetest.Agent{scout, planner} {
		if err := a.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.secrets = append(h.secrets, a.Token)
	}
	for range 2 {
		if got, answer, err := scout.Send(t.Context(), "planner", "hello", nil); err != nil || got >= http.StatusBadRequest {
			t.Fatalf("a message over AIRC is answered %d %v, %v", got, answer, err)
		}
	}
	ada := overConn(dialFrom(t, "127.0.0.1", addr))
	did := ada.login(t, "ada")
	ada.says(t, "JOIN #ops")
	for range 2 { // a forged one counts too
		ada.says(t, forged(did))
		ada.until(t, "FAIL TAGMSG SIGNATURE_INVALID")
	}
	ada.says(t, forged(did))
	ada.until(t, "FAIL TAGMSG RATE_LIMITED")
	if got, again := status(near); got != http.StatusTooManyRequests || again == "" {
		t.Errorf("an offer over REST is answered %d, again after %q", got, again)
	}
	if got, answer, err := planner.Send(t.Context(), "scout_7", "hello", nil); err != nil || got != http.StatusTooManyRequests {
		t.Errorf("a message over AIRC is answered %d %v, %v", got, answer, err)
	}
	if got, _ := status(far); got != http.StatusCreated {
		t.Errorf("an offer from another address is answered %d", got)
	}
	counters := h.counters(t)
	for _, network := range []string{"client", "rest", "airc"} {
		if n := counters[`baton_rate_limited_total{network="`+network+`"}`]; n != 1 {
			t.Errorf("%v are counted on %s, want 1", n, network)
		}
	}
}

func TestLoginRateIsSharedByAllListeners(t *testing.T) {
	t.Parallel()
	addr := federationtest.FreeAddr(t)
	tables := func(limit int) []string {
		return []string{fmt.Sprintf("[irc.client]\nlisten = %q\n[limits]\nlogins_per_minute = %d\n", addr, limit)}
	}
	h := newHouse(t, tables(3)...)
	h.start(t)
	h.ready(t)
	logIn(t, h.url()) // a challenge and a token
	overConn(dialFrom(t, "127.0.0.1", addr)).login(t, "ada")
	late := overConn(dialFrom(t, "127.0.0.1", addr))
	late.says(t, "CAP REQ :standard-replies", "AUTHENTICATE ATPROTO-CHALLENGE")
	late.until(t, "FAIL AUTHENTICATE RATE_LIMITED")
	late.until(t, " 904 ")
	post := func(path, body string) (status int, again string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := clientFrom(t, "127.0.0.1").Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode, response.Header.Get("Retry-After")
	}
	for path, body := range map[string]string{
		"/api/v1/auth/challenge": `{"did":"did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"}`,
		"/register/challenge":    `{"handle":"scout_7"}`,
		"/auth/refresh":          `{}`,
	} {
		if status, again := post(path, body); status != http.StatusTooManyRequests || again == "" {
			t.Errorf("%s is answered %d, again after %q", path, status, again)
		}
	}
	overConn(dialFrom(t, "127.0.0.2", addr)).login(t, "bob")
	h.configure(t, tables(0)...)
	h.signal(t, syscall.SIGHUP)
	await(t, "the limit to be gone", func() bool {
		status, _ := post("/register/challenge", `{"handle":"scout_7"}`)
		return status == http.StatusOK
	})
}

func TestRateLimitedAddressCausesNoKeyLookup(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	host := httptest.NewUnstartedServer(http.NotFoundHandler())
	host.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			asked.Add(1)
		}
	}
	host.Start()
	t.Cleanup(host.Close)
	path := filepath.Join(t.TempDir(), "baton.toml")
	text := "[home]\nname = 'gw.test'\n[http]\nlisten = ''\n[admin]\nlisten = ''\nsocket = ''\n[fetch]\nallow_private = true\n[limits]\naddress_events_per_minute = 1\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, err := main.Assemble(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gateway.Close() })
	arrives := func(name string) error {
		did := "did:web:" + strings.ReplaceAll(strings.TrimPrefix(host.URL, "http://"), ":", "%3A") + ":" + name
		ctx := bridge.WithSubnet(t.Context(), bridge.SubnetOf("192.0.2.1"))
		ev := federation.Event{From: federation.DID(did), Kind: federation.Handoff, Verb: federation.Offer}
		ev.Signature.Text = "ed25519:" + base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SignatureSize))
		return gateway.Submit(ctx, ev)
	}
	if err := arrives("a"); err == nil || asked.Load() == 0 {
		t.Fatalf("the host of the first DID is asked %d times: %v", asked.Load(), err)
	}
	before := asked.Load()
	refused, _ := errors.AsType[*federation.RefusalError](arrives("b"))
	if n := asked.Load() - before; n > 0 || refused == nil || refused.Code != federation.RateLimited || refused.RetryAfter <= 0 {
		t.Errorf("the second is asked for %d times, and refused with %+v", n, refused)
	}
}
