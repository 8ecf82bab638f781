package main_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// channelOfStage is the channel that all networks share.
const channelOfStage = "#ops"

// stageMiB bounds the gateway's memory after all attacks: some 230 MiB, and 560 with the
// race detector, which the binary of the tests may have.
const stageMiB = 1024

// A stage is one gateway with every listener open, and the honest parties around it.
type stage struct {
	*house

	irc, ircTLS string // addresses of the listeners for IRC clients
	ircd        *bridgetest.IRCd
	freeq       *bridgetest.Freeq
	registry    *liar             // own.test, a registry that the gateway knows
	strays      atomic.Int32      // requests to that registry for paths that no registry asks for
	scout       *bridgetest.Agent // takes the offers of the honest parties

	mu       sync.Mutex
	rows     []string
	filed    map[string]bool    // handoffs of the honest parties
	answered map[string]int     // method, path and status of requests, as the access log has them
	counted  map[string]float64 // refusals by the series that must count them
	access   map[string]int     // requests in the access log, by the same

	sockets *http.Transport   // to the socket of the operators
	tokens  map[string]string // of operators, by scope
}

// unmetered returns a table of limits without the ones for requests
// often. The floods test these.
func unmetered(t *testing.T) string {
	t.Helper()
	reference, err := os.ReadFile(filepath.Join("..", "..", "configs", "baton.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, limits, _ := strings.Cut(string(reference), "\n[limits]\n")
	limits, _, _ = strings.Cut(limits, "\n[")
	metered := regexp.MustCompile(`(?m)^([a-z_]+_per_(?:minute|second|hour|address|sender)|[a-z_]*connections|first_contacts) = \d+$`)
	var table strings.Builder
	table.WriteString("[limits]\n")
	for _, key := range metered.FindAllStringSubmatch(limits, -1) {
		table.WriteString(key[1] + " = 0\n")
	}
	return table.String()
}

// newStage starts the gateway.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		house: newHouse(t), irc: federationtest.FreeAddr(t), ircTLS: federationtest.FreeAddr(t),
		filed: map[string]bool{}, answered: map[string]int{}, counted: map[string]float64{},
	}
	s.openRegistry(t)
	certificate := certify(t, s.house, "gw.test")
	s.configure(t, fmt.Sprintf(`[fetch]
allow_private = true
per_host = 1000
[tls]
cert_file = %q
key_file = %q
[irc.client]
listen = %q
tls_listen = %q
websocket = true
registration_timeout = "5s"
%s
[[airc.peers]]
domain = "own.test"
url = %q
`, certificate.certFile, certificate.keyFile, s.irc, s.ircTLS, unmetered(t), s.registry.server.URL),
		s.openIRCd(t), s.openFreeq(t), newPretender(t, "c.test"))
	s.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(s.ircd.Linked(ctx), s.freeq.AwaitLink(ctx)); err != nil {
		t.Fatal(err)
	}
	s.sockets, s.tokens = s.overSocket(t), map[string]string{"read": "", "admin": ""}
	for scope := range s.tokens {
		s.tokens[scope] = s.operatorToken(t, scope)
	}
	s.scout = resident(t, s.house, "scout_7", 7)
	s.secrets = append(s.secrets, s.scout.Token)
	return s
}

// openRegistry starts the registry that the gateway knows.
func (s *stage) openRegistry(t *testing.T) {
	t.Helper()
	s.registry = &liar{name: "own", key: newParty(t).secret}
	key := base64.StdEncoding.EncodeToString(s.registry.key[ed25519.SeedSize:])
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/airc", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"protocol":"AIRC","protocol_version":"0.2.0","public_key":"ed25519:%s"}`, key)
	})
	for _, path := range []string{"/.well-known/airc/identity/amy_1", "/identity/amy_1", "/api/identity/amy_1", "/federation/presence", "POST /federation/consent", "POST /federation/relay"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusNotFound) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/.well-known/airc/registry") && !strings.HasPrefix(r.URL.Path, "/api/federation/") {
			s.strays.Add(1)
			t.Errorf("the gateway asked the registry for %s %s", r.Method, r.URL)
		}
		http.Error(w, "{}", http.StatusNotFound)
	})
	s.registry.server = httptest.NewServer(mux)
	t.Cleanup(s.registry.server.Close)
}

// openIRCd starts a server that the gateway links to, and returns the table of the link.
func (s *stage) openIRCd(t *testing.T) string {
	t.Helper()
	ircd, err := bridgetest.ListenIRCd(context.WithoutCancel(t.Context()), bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1AB", LinkName: "gw.test", SendPassword: "planted-recv", RecvPassword: "planted-send",
		Users: []string{"alice", "mallory"}, Channels: []string{channelOfStage},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ircd.Close)
	s.ircd = ircd
	s.keep(t, "lab.send", "planted-send")
	s.keep(t, "lab.recv", "planted-recv")
	return fmt.Sprintf(`[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = %q
sid = "9GW"
send_password_file = "lab.send"
recv_password_file = "lab.recv"
channels = [%q]
`, ircd.Addr(), channelOfStage)
}

// openFreeq starts a freeq server that the gateway links to, and returns the table of the
// link.
func (s *stage) openFreeq(t *testing.T) string {
	t.Helper()
	endpoint := freeqKey("endpoint of the gateway")
	keys := filepath.Join(s.dir, "data", "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "endpoint"), []byte(hex.EncodeToString(endpoint.Seed())), 0o600); err != nil {
		t.Fatal(err)
	}
	s.freeq = bridgetest.NewFreeq(bridgetest.FreeqConfig{
		Name: "fq.test", Endpoint: freeqKey("endpoint of fq"), Server: freeqKey("server of fq"),
		Peer: hex.EncodeToString(endpoint[ed25519.SeedSize:]), PeerAPI: s.url(), Channels: []string{channelOfStage},
	})
	address, err := s.freeq.Listen(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.freeq.Close)
	return fmt.Sprintf(`[[irc.freeq]]
name = "fq"
server_name = "fq.test"
endpoint_id = %q
peer_api = %q
transport = "tcp"
address = %q
channels = [%q]
`, s.freeq.ID(), s.freeq.API(), address, channelOfStage)
}

// files notes a handoff of an honest party.
func (s *stage) files(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filed[id] = true
}

// counts notes that a series must have counted one refusal more.
func (s *stage) counts(series string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted[series]++
}

// refusal returns the series that counts refusals with a code.
func refusal(network, code string) string {
	return fmt.Sprintf("baton_refusals_total{code=%q,network=%q}", code, network)
}

// badInput returns the series that counts unreadable input of a network.
func badInput(network, link, reason string) string {
	return fmt.Sprintf("baton_bad_input_total{link=%q,network=%q,reason=%q}", link, network, reason)
}

func (s *stage) operator(t *testing.T, path string) []byte {
	t.Helper()
	status, text := s.exchange(t, s.socket(), getting(operatorPath+path, ""))
	if status != http.StatusOK {
		t.Fatalf("%s is answered %d %s", path, status, text)
	}
	return text
}

// overSocket returns a transport to the socket of the operators, whatever address is asked
// for.
func (s *stage) overSocket(t *testing.T) *http.Transport {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(s.dir, "data", "baton.sock"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// checkRecord compares the handoffs on record with the handoffs of the honest parties.
func (s *stage) checkRecord(t *testing.T) {
	t.Helper()
	found, cursor := map[string]bool{}, ""
	for {
		var page struct {
			Items []struct{ ID, Title string }
			Next  string `json:"next_cursor"`
		}
		if err := json.Unmarshal(s.operator(t, "handoffs?limit=500&cursor="+cursor), &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			found[item.ID] = true
			if !s.filed[item.ID] {
				t.Errorf("handoff %s was filed: %q", item.ID, item.Title)
			}
		}
		if cursor = page.Next; cursor == "" || len(page.Items) == 0 {
			break
		}
	}
	for id := range s.filed {
		if !found[id] {
			t.Errorf("handoff %s of an honest party is not on record", id)
		}
	}
	t.Logf("%d handoffs on record, all of honest parties", len(found))
}

// checkAccounts checks that a counter or a line of the log tells the operator of each
// refusal.
func (s *stage) checkAccounts(t *testing.T) {
	t.Helper()
	for path, want := range s.answered {
		if got := s.inLog(t, path); got < want {
			t.Errorf("the log has %d requests %s, want %d", got, path, want)
		}
	}
	counters := s.counters(t)
	for series, want := range s.counted {
		if counters[series] < want {
			t.Errorf("%s is %v, want at least %v", series, counters[series], want)
		}
	}
}

// inLog returns how many requests of one method, path and status the access log has.
func (s *stage) inLog(t *testing.T, want string) (n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.access == nil {
		s.access = map[string]int{}
		for line := range strings.Lines(s.told(t)) {
			var entry struct {
				Msg, Method, Path string
				Status            int
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "request answered" {
				s.access[accessKey(entry.Method, entry.Path, entry.Status)]++
			}
		}
	}
	return s.access[want]
}

func accessKey(method, path string, status int) string {
	return fmt.Sprint(method, " ", path, " ", status)
}

// checkLinks checks that each link is still up, and was never dialled again.
func (s *stage) checkLinks(t *testing.T) {
	t.Helper()
	counters := s.counters(t)
	for network, link := range map[string]string{"spanningtree": "lab", "freeq": "fq", "client": "client", "airc": "airc", "rest": "rest"} {
		labels := fmt.Sprintf("{link=%q,network=%q}", link, network)
		if counters["baton_link_up"+labels] != 1 || counters["baton_link_reconnects_total"+labels] != 0 {
			t.Errorf("link %s: up %v, dialled again %v times", link, counters["baton_link_up"+labels], counters["baton_link_reconnects_total"+labels])
		}
	}
	if err := s.ircd.Err(); err != nil {
		t.Errorf("what the gateway said on the link to InspIRCd: %v", err)
	}
	if odd := s.freeq.Unexpected(); len(odd) > 0 {
		t.Errorf("what the gateway said on the link to freeq: %q", odd)
	}
}

func (s *stage) checkMemory(t *testing.T) {
	t.Helper()
	held := memoryKiB(t, s.process.Process.Pid, "VmRSS") >> 10
	t.Logf("the gateway holds %d MiB", held)
	if held > stageMiB {
		t.Errorf("the gateway holds %d MiB, want at most %d", held, stageMiB)
	}
}
