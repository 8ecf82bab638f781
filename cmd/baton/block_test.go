//go:build interop

package main_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// besieged is a gateway with an entry of each kind, and the sources that come in by them.
type besieged struct {
	*homeServer

	lab   *bridgetest.IRCd
	fq    *bridgetest.FreeqUser
	alice person  // on IRC, freeq and plain HTTP
	http  *caller // with a token
	scout *bridgetest.Agent
	// strange is a person whose did:web is at a host that counts its callers.
	strange person
	looked  *atomic.Int32
}

func newBesieged(t *testing.T) *besieged {
	t.Helper()
	b := &besieged{homeServer: &homeServer{house: newHouse(t), irc: federationtest.FreeAddr(t)}, alice: newPerson(t), looked: &atomic.Int32{}}
	b.keep(t, "lab.send", "planted-lab-send")
	lab, err := bridgetest.ListenIRCd(t.Context(), bridgetest.IRCdConfig{
		Name: "lab.irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-lab-send", RecvPassword: "planted-lab-send",
		Users: []string{"alice", "mallory"}, Channels: []string{channel},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)
	b.keep(t, "lab.recv", "planted-lab-send")
	b.lab = lab
	server, table := newFreeq(t, b.house, "fq", channel)
	b.configure(t, fmt.Sprintf("[irc.client]\nlisten = %q\nwebsocket = true\nchannels = [%q]\n[airc]\nfederation = \"open\"\n[policy]\n", b.irc, channel),
		linkTable("lab", "lab.irc.test", lab.Addr()), table)
	b.start(t)
	b.ready(t)
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	b.fq = server.Join("finn", didOf(seeded("finn")), seeded("finn"))
	b.http = logIn(t, b.url())
	b.scout = (&world{house: b.house}).register(t, "scout_7")
	host := httptest.NewUnstartedServer(http.NotFoundHandler())
	host.Config.ErrorLog = log.New(io.Discard, "", 0)
	host.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			b.looked.Add(1)
		}
	}
	host.StartTLS()
	t.Cleanup(host.Close)
	b.strange = newPerson(t)
	b.strange.did = "did:web:" + strings.ReplaceAll(strings.TrimPrefix(host.URL, "https://"), ":", "%3A") + ":strange"
	return b
}

// ask sends a request to the public listener and returns the answer as text.
func (b *besieged) ask(t *testing.T, method, path, token string, body any) string {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, b.url()+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if body == nil {
		r.Body = http.NoBody
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(response.StatusCode, " ", string(answer))
}

// connect opens a connection to the listener for IRC clients, sends some lines and
// returns the server's answers until one has one of the last words.
func (b *besieged) connect(t *testing.T, lines []string, last ...string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", b.irc)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	for _, line := range lines {
		_, _ = fmt.Fprintf(conn, "%s\r\n", line) // it may have closed by now
	}
	said := ""
	for scan := bufio.NewScanner(conn); scan.Scan(); {
		said += scan.Text() + "\n"
		for _, word := range append(last, "ERROR ") {
			if strings.Contains(scan.Text(), word) {
				return said
			}
		}
	}
	return said
}

// logIn proves a DID with SASL and returns the server's answer.
func (b *besieged) logIn(t *testing.T, p person) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", b.irc)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprint(conn, "AUTHENTICATE ATPROTO-CHALLENGE\r\n")
	for scan := bufio.NewScanner(conn); scan.Scan(); {
		text, isChallenge := strings.CutPrefix(scan.Text(), "AUTHENTICATE ")
		if isChallenge {
			document, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			answer := fmt.Sprintf(`{"did":%q,"signature":%q}`, p.did, base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.key, document)))
			_, _ = fmt.Fprintf(conn, "AUTHENTICATE %s\r\n", base64.RawURLEncoding.EncodeToString([]byte(answer)))
		}
		if strings.Contains(scan.Text(), " 903 ") || strings.Contains(scan.Text(), " 904 ") {
			return scan.Text()
		}
	}
	return ""
}

// says makes a user of the linked network take a step in the channel, and returns the
// gateway's answer, or "filed".
func (b *besieged) says(t *testing.T, nick string, p person) string {
	t.Helper()
	offer := rfcTags.offer(p, channel, extras{"title": "work"})
	b.lab.Tagmsg(nick, channel, offer.tags)
	answer := ""
	await(t, "an answer to "+nick, func() bool {
		for _, m := range b.lab.Received() {
			if m.Command == "NOTICE" && strings.Contains(strings.Join(m.Params, " "), offer.event) {
				answer = strings.Join(m.Params, " ")
			}
		}
		if answer == "" && b.command(t, "handoff", "show", offer.handoff).Run() == nil {
			answer = "filed"
		}
		return answer != ""
	})
	return answer
}

// overFreeq has the user of the freeq server offer something, and returns whether the
// gateway filed it.
func (b *besieged) overFreeq(t *testing.T) string {
	t.Helper()
	id, err := b.fq.Offer(channel, "", "work")
	if err != nil {
		t.Fatal(err)
	}
	before := b.counters(t)[`baton_blocked_total{network="freeq"}`]
	answer := ""
	await(t, "the gateway to judge a step of freeq", func() bool {
		switch {
		case b.command(t, "handoff", "show", id.String()).Run() == nil:
			answer = "filed"
		case b.counters(t)[`baton_blocked_total{network="freeq"}`] > 0 || before > 0:
			answer = "policy_denied"
		}
		return answer != ""
	})
	return answer
}

// overWebSocket returns the server's first message on a WebSocket.
func (b *besieged) overWebSocket(t *testing.T) string {
	t.Helper()
	ctx := patient(t)
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(b.url(), "http")+"/irc", &websocket.DialOptions{Subprotocols: []string{"text.ircv3.net"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	_ = conn.Write(ctx, websocket.MessageText, []byte("PING x"))
	_ = conn.Write(ctx, websocket.MessageText, []byte("NICK ws"))
	_ = conn.Write(ctx, websocket.MessageText, []byte("USER ws 0 * ws"))
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return "closed: " + err.Error()
		}
		if line := string(text); strings.Contains(line, " 001 ") || strings.Contains(line, "ERROR") {
			return line
		}
	}
}

// relay sends an unsigned message of an agent of another registry.
func (b *besieged) relay(t *testing.T, from string) string {
	t.Helper()
	return b.ask(t, http.MethodPost, "/federation/relay", "", map[string]any{
		"from": from, "from_address": from, "to": "scout_7", "to_address": "scout_7@gw.test", "origin_registry": "peer.example", "body": "hello",
		"idempotency_key": fmt.Sprintf("relay-%d", time.Now().UnixNano()), "timestamp": time.Now().UTC().Format(time.RFC3339),
	})
}

func TestBlockAppliesAtEveryEntryPoint(t *testing.T) {
	t.Parallel()
	b := newBesieged(t)
	greeting := func(nick string) func() string {
		return func() string {
			return b.connect(t, []string{"NICK " + nick, "USER " + nick + " 0 * x"}, " 001 ", " 433 ")
		}
	}
	entry := map[string]func() string{
		"IRC connection":           greeting("carol"),
		"IRC connection of a nick": greeting("mallory"),
		"IRC WebSocket":            func() string { return b.overWebSocket(t) },
		"IRC login":                func() string { return b.logIn(t, b.alice) },
		"IRC login of a did:web":   func() string { return b.logIn(t, b.strange) },
		"IRC link":                 func() string { return b.says(t, "alice", b.alice) },
		"IRC link, a nick":         func() string { return b.says(t, "mallory", newPerson(t)) },
		"IRC link, a did:web":      func() string { return b.says(t, "alice", b.strange) },
		"freeq link":               func() string { return b.overFreeq(t) },
		"REST challenge": func() string {
			return b.ask(t, http.MethodPost, "/api/v1/auth/challenge", "", map[string]any{"did": b.http.did})
		},
		"REST challenge, did:web": func() string {
			return b.ask(t, http.MethodPost, "/api/v1/auth/challenge", "", map[string]any{"did": b.strange.did})
		},
		"REST inbox": func() string { return b.ask(t, http.MethodGet, "/api/v1/inbox", b.http.token, nil) },
		"REST step": func() string {
			return b.ask(t, http.MethodPost, "/api/v1/handoffs", b.http.token, map[string]any{"title": "work", "to": b.alice.did})
		},
		"REST inbox of an agent": func() string { return b.ask(t, http.MethodGet, "/api/v1/inbox", b.scout.Token, nil) },
		"AIRC challenge": func() string {
			return b.ask(t, http.MethodPost, "/register/challenge", "", map[string]any{"handle": "newcomer"})
		},
		"AIRC message": func() string {
			status, answer, err := b.scout.Send(t.Context(), "scout_7", "hello", nil)
			return fmt.Sprint(status, answer, err)
		},
		"AIRC inbox": func() string { return b.ask(t, http.MethodGet, "/messages/inbox", b.scout.Token, nil) },
		"AIRC refresh": func() string {
			return refreshed(t, b.scout)
		},
		"AIRC presence of D3": func() string {
			return b.ask(t, http.MethodPost, "/api/presence", "", map[string]any{"action": "register", "username": "scout_7"})
		},
		"AIRC message of D3": func() string {
			return b.ask(t, http.MethodPost, "/api/messages", b.scout.Token, map[string]any{"from": "scout_7", "to": "scout_7", "text": "hello"})
		},
		"AIRC relay": func() string { return b.relay(t, "mallory@peer.example") },
	}
	for _, test := range []struct {
		what    string
		refused []string
		let     []string // which other sources come in by still
	}{
		{
			"127.0.0.0/8",
			[]string{
				"IRC connection", "IRC WebSocket", "REST challenge", "REST inbox", "AIRC challenge", "AIRC message", "AIRC inbox",
				"AIRC presence of D3", "AIRC message of D3", "AIRC relay",
			},
			[]string{"IRC link"}, // which tells no address
		},
		{b.alice.did, []string{"IRC login", "IRC link"}, []string{"IRC connection", "REST inbox", "AIRC inbox", "freeq link"}},
		{string(b.http.did), []string{"REST challenge", "REST inbox", "REST step"}, []string{"IRC link", "AIRC inbox"}},
		{string(didOf(seeded("finn"))), []string{"freeq link"}, []string{"IRC link"}},
		{"scout_7", []string{
			"REST inbox of an agent", "AIRC message", "AIRC inbox", "AIRC refresh", "AIRC presence of D3", "AIRC message of D3",
		}, []string{"AIRC challenge", "REST inbox", "AIRC relay"}},
		{b.scout.DID, []string{"REST inbox of an agent", "AIRC message", "AIRC inbox"}, []string{"AIRC challenge"}},
		{"scout_7@gw.test", []string{"AIRC inbox"}, []string{"AIRC challenge"}},
		{"mallory@peer.example", []string{"AIRC relay"}, []string{"AIRC inbox"}},
		{"mal?ory!*@lab", []string{"IRC link, a nick"}, []string{"IRC link", "IRC connection of a nick"}},
		{"mallory!mal*@client", []string{"IRC connection of a nick"}, []string{"IRC link, a nick", "IRC connection"}},
		{"host:127.0.0.1", []string{"IRC login of a did:web", "REST challenge, did:web", "IRC link, a did:web"}, []string{"IRC login"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			check := func(when string, names []string, want bool) {
				t.Helper()
				for _, name := range names {
					answer := entry[name]()
					code := strings.ReplaceAll(strings.ToLower(answer), "-", "_")
					if got := strings.Contains(code, "policy_denied"); got != want {
						t.Errorf("%s, %s is answered %q; refused: want %t", when, name, answer, want)
					}
				}
			}
			check("before", test.refused, false)
			looked := b.looked.Load()
			if strings.HasPrefix(test.what, "host:") && looked == 0 {
				t.Error("the host of a did:web is never asked for keys")
			}
			var blocked admin.Blocked
			b.asks(t, &blocked, "block", "add", test.what, "--reason", "test")
			check("blocked", test.refused, true)
			if strings.HasPrefix(test.what, "host:") && b.looked.Load() != looked {
				t.Errorf("the host of a blocked did:web was asked for keys")
			}
			check("blocked", test.let, false)
			b.asks(t, &struct{}{}, "block", "remove", test.what)
			check("after", test.refused, false)
		})
	}
	if n := b.counters(t)[`baton_blocked_total{network="client"}`]; n == 0 {
		t.Error("blocked connections are not counted")
	}
}

// refreshed has an agent refresh its tokens, and returns the answer.
func refreshed(t *testing.T, agent *bridgetest.Agent) string {
	t.Helper()
	status, answer, err := agent.Refresh(t.Context())
	return fmt.Sprint(status, answer, err)
}

func TestBlockEndsConnections(t *testing.T) {
	t.Parallel()
	b := newBesieged(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", b.irc)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprint(conn, "NICK mallory\r\nUSER mallory 0 * x\r\n")
	lines := bufio.NewScanner(conn)
	for lines.Scan() && !strings.Contains(lines.Text(), " 001 ") {
	}
	b.asks(t, &struct{}{}, "block", "add", "mallory!*@client")
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if !strings.HasPrefix(last, "ERROR ") || !strings.Contains(last, "POLICY_DENIED") {
		t.Errorf("the connection ends with %q", last)
	}
}
