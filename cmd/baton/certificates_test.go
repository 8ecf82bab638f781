package main_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// certified is a certificate of one or more names, with the paths of its
// files.
type certified struct {
	certificate       tls.Certificate
	certFile, keyFile string
}

func certify(t *testing.T, h *house, name string, others ...string) certified {
	t.Helper()
	dir := filepath.Join(h.dir, "certificate of "+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	certificate, err := bridgetest.NewCertificate(name, others...)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := bridgetest.WriteCertificate(dir, certificate)
	if err != nil {
		t.Fatal(err)
	}
	return certified{certificate, certFile, keyFile}
}

// replace writes another certificate into the files of this one, as an ACME client of the system does.
func (c certified) replace(t *testing.T, next tls.Certificate) {
	t.Helper()
	if _, _, err := bridgetest.WriteCertificate(filepath.Dir(c.certFile), next); err != nil {
		t.Fatal(err)
	}
}

// presented returns the fingerprint of the certificate that a connection presents, and the protocol.
func presented(conn net.Conn, cfg *tls.Config) (fingerprint, protocol string, err error) {
	cfg.InsecureSkipVerify = true
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(context.Background()); err != nil {
		return "", "", err
	}
	state := secured.ConnectionState()
	return bridgetest.Fingerprint(tls.Certificate{Certificate: [][]byte{state.PeerCertificates[0].Raw}}), state.NegotiatedProtocol, nil
}

// fetched returns the answer to a request of one client.
func fetched(t *testing.T, client *http.Client, address string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(request)
}

// tlsHouse is a gateway with a listener of each kind and a link, all with TLS.
type tlsHouse struct {
	*house

	own              certified
	irc, macp, relay string

	mu    sync.Mutex
	shown []string // fingerprints of the gateway at the server that it dials
}

// securedLink is the table of a link with TLS: its name, that of the other server, the key of an address
// and the address, and the fingerprint of the other server.
const securedLink = `[[irc.spanningtree]]
name = %q
server_name = %q
%s = %q
sid = "9GW"
send_password_file = "lab.send"
recv_password_file = "lab.recv"
channels = ["#ops"]
tls = true
tls_fingerprint = %q
`

func newTLSHouse(t *testing.T, tables ...string) *tlsHouse {
	t.Helper()
	h := &tlsHouse{house: newHouse(t), irc: federationtest.FreeAddr(t), macp: federationtest.FreeAddr(t), relay: federationtest.FreeAddr(t)}
	h.own = certify(t, h.house, "gw.test", "localhost")
	h.keep(t, "lab.send", "planted-send")
	h.keep(t, "lab.recv", "planted-recv")
	theirs := certify(t, h.house, "lab.irc.test")
	server, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{theirs.certificate}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go h.record(server)
	h.secure = true
	if out, err := h.command(t, "relay", "accounts", "gw.test", "b.test", "--out", filepath.Join(h.dir, "data", "relay")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tables = append(tables, fmt.Sprintf(`[tls]
cert_file = %q
key_file = %q
[irc.client]
tls_listen = %q
[macp]
listen = %q
tls = true
[relay]
listen = %q
`, h.own.certFile, h.own.keyFile, h.irc, h.macp, h.relay),
		fmt.Sprintf(securedLink, "lab", "lab.irc.test", "address", server.Addr().String(), bridgetest.Fingerprint(theirs.certificate)))
	h.configure(t, tables...)
	h.start(t)
	return h
}

// record notes the certificate of each connection to an IRC server, and ends it, so that the gateway dials
// again.
func (h *tlsHouse) record(server net.Listener) {
	for {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		if secured, ok := conn.(*tls.Conn); ok && secured.HandshakeContext(context.Background()) == nil {
			h.mu.Lock()
			h.shown = append(h.shown, bridgetest.Fingerprint(tls.Certificate{Certificate: [][]byte{secured.ConnectionState().PeerCertificates[0].Raw}}))
			h.mu.Unlock()
		}
		conn.Close()
	}
}

// everywhere returns the fingerprints that each listener and link presents now.
func (h *tlsHouse) everywhere(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var d net.Dialer
	for name, address := range map[string]string{"http": h.public, "irc": h.irc, "macp": h.macp, "relay": h.relay} {
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(name, err)
		}
		if name == "relay" { // NATS begins in plain text
			if _, err := bufio.NewReaderSize(conn, 1).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		cfg := &tls.Config{ServerName: "localhost"}
		if found[name], _, err = presented(conn, cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		conn.Close()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if found["link"] = "none"; len(h.shown) > 0 {
		found["link"] = h.shown[len(h.shown)-1]
	}
	return found
}

// presents waits until all listeners and links present a certificate.
func (h *tlsHouse) presents(t *testing.T, what string, certificate tls.Certificate) {
	t.Helper()
	want := bridgetest.Fingerprint(certificate)
	var found map[string]string
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		_ = h.command(t, "link", "dial", "lab", "--reason", "test").Run() // it may be dialling
		found = h.everywhere(t)
		others := 0
		for _, fingerprint := range found {
			if fingerprint != want {
				others++
			}
		}
		if others == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: want %s, got %v", what, want, found)
		}
	}
}

func certificateUntil(t *testing.T, ends time.Time) tls.Certificate {
	t.Helper()
	pair, err := bridgetest.NewCertificateUntil(ends, "gw.test", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// asker is a client that asks again and again over one connection.
type asker struct {
	name  string
	asked atomic.Int64
	ended chan error // has the error of a failed question
}

// askEach is the pause between two questions of an asker.
const askEach = 20 * time.Millisecond

// asking runs an asker until the test ends.
func asking(t *testing.T, name string, ask func() error) *asker {
	t.Helper()
	a := &asker{name: name, ended: make(chan error, 1)}
	ctx := t.Context()
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(askEach)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := ask(); err != nil {
				a.ended <- err
				return
			}
			a.asked.Add(1)
			<-tick.C
		}
	})
	t.Cleanup(running.Wait)
	return a
}

// answered waits until an asker has five more answers.
func (a *asker) answered(t *testing.T) {
	t.Helper()
	want := a.asked.Load() + 5
	await(t, a.name+" to be answered", func() bool {
		select {
		case err := <-a.ended:
			t.Fatalf("%s, after %d answers: %v", a.name, a.asked.Load(), err)
		default:
		}
		return a.asked.Load() >= want
	})
}

// dialSecured opens a connection to a listener.
func dialSecured(t *testing.T, address string) net.Conn {
	t.Helper()
	d := tls.Dialer{Config: &tls.Config{ServerName: "localhost", InsecureSkipVerify: true}}
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// asksHTTP returns a question of HTTP/1.1 over one connection.
func asksHTTP(t *testing.T, address, request string) func() error {
	t.Helper()
	conn := dialSecured(t, address)
	answers := bufio.NewReader(conn)
	return func() error {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("answer %s", response.Status)
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
}

// asksHTTP2 returns a question of HTTP/2 by a client that trusts only the first certificate, so that it
// cannot connect again.
func asksHTTP2(t *testing.T, h *tlsHouse) func() error {
	t.Helper()
	transport := as(t, h.own)
	transport.ForceAttemptHTTP2 = true
	client := &http.Client{Transport: transport, Timeout: patience}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, h.url()+"/.well-known/did.json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
			return fmt.Errorf("answer %s %s", response.Proto, response.Status)
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
}

// asksIRC returns a question of an IRC client.
func asksIRC(t *testing.T, address string) func() error {
	t.Helper()
	conn := dialSecured(t, address)
	answers := bufio.NewReader(conn)
	until := func(question, answer string) error {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, question+"\r\n"); err != nil {
			return err
		}
		for {
			line, err := answers.ReadString('\n')
			if err != nil || strings.Contains(line, answer) {
				return err
			}
		}
	}
	if err := until("NICK busy\r\nUSER busy 0 * :Busy", " 001 "); err != nil {
		t.Fatal(err)
	}
	return func() error { return until("PING still-here", "still-here") }
}

// asksRelay returns a question of another home at the listener of the relay.
func asksRelay(t *testing.T, h *tlsHouse) func() error {
	t.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(h.dir, "data", "relay", "b.test.nk"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect("tls://"+h.relay, key, nats.NoReconnect(), nats.Secure(&tls.Config{InsecureSkipVerify: true}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return func() error { return conn.FlushTimeout(patience) }
}

// securedServer is an IRC server that links over TLS, and notes the certificate that the gateway
// presents.
type securedServer struct {
	*bridgetest.IRCd

	pinned string
	mu     sync.Mutex
	shown  []string // of each connection
}

func newSecuredServer(t *testing.T, name string, listens bool) *securedServer {
	t.Helper()
	own, err := bridgetest.NewCertificate(name)
	if err != nil {
		t.Fatal(err)
	}
	s := &securedServer{pinned: bridgetest.Fingerprint(own)}
	cfg := bridgetest.IRCdConfig{
		Name: name, SID: "1LA", LinkName: "gw.test", SendPassword: "planted-recv", RecvPassword: "planted-send", Users: []string{"alice"}, Channels: []string{"#ops"},
		TLS: &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.shown = append(s.shown, bridgetest.Fingerprint(tls.Certificate{Certificate: [][]byte{state.PeerCertificates[0].Raw}}))
			return nil
		}},
	}
	if !listens {
		s.IRCd = bridgetest.NewIRCd(cfg)
		t.Cleanup(s.Close)
		return s
	}
	if s.IRCd, err = bridgetest.ListenIRCd(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// presented returns the fingerprints of the gateway, of each connection.
func (s *securedServer) presented() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.shown)
}

// asks returns a question to the user of the gateway, as for a WHOIS.
func (s *securedServer) asks(t *testing.T) func() error {
	t.Helper()
	next := func(command string) (bridgetest.IRCMessage, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return s.Next(ctx, func(m bridgetest.IRCMessage) bool { return m.Command == command })
	}
	user, err := next("UID")
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		s.Say("alice", "IDLE "+user.Params[0])
		_, err := next("IDLE")
		return err
	}
}

// Clients of each listener and link work while the files of the certificate are replaced twice: each
// keeps its one connection, and new connections get the new certificate.
func TestReplacedCertificateIsServedByEveryListenerAndLink(t *testing.T) {
	t.Parallel()
	dialled, accepted, listen := newSecuredServer(t, "dialled.irc.test", true), newSecuredServer(t, "accepted.irc.test", false), federationtest.FreeAddr(t)
	h := newTLSHouse(t, "[limits]\nuser_events_per_minute = 0\n",
		fmt.Sprintf(securedLink, "dialled", "dialled.irc.test", "address", dialled.Addr(), dialled.pinned),
		fmt.Sprintf(securedLink, "accepted", "accepted.irc.test", "listen", listen, accepted.pinned))
	h.presents(t, "at the start", h.own.certificate)
	if err := accepted.Dial(t.Context(), listen); err != nil {
		t.Fatal(err)
	}
	versions := `{"supportedProtocolVersions": ["1.0"]}`
	askers := []*asker{
		asking(t, "HTTP/1.1", asksHTTP(t, h.public, "GET /.well-known/did.json HTTP/1.1\r\nHost: localhost\r\n\r\n")),
		asking(t, "HTTP/2", asksHTTP2(t, h)),
		asking(t, "an IRC client", asksIRC(t, h.irc)),
		asking(t, "MACP", asksHTTP(t, h.macp, fmt.Sprintf("POST /macp.v1.MACPRuntimeService/Initialize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(versions), versions))),
		asking(t, "a home at the relay", asksRelay(t, h)),
		asking(t, "a link that the gateway dials", dialled.asks(t)),
		asking(t, "a link that the gateway accepts", accepted.asks(t)),
	}
	allAsk := func() {
		t.Helper()
		for _, a := range askers {
			a.answered(t)
		}
	}
	allAsk()

	second := certificateUntil(t, time.Now().Add(48*time.Hour))
	h.own.replace(t, second)
	h.presents(t, "replaced", second)
	allAsk()
	if got := h.counters(t)["baton_certificate_expiry_timestamp_seconds"]; got < float64(time.Now().Add(47*time.Hour).Unix()) {
		t.Errorf("the metric is %v", got)
	}

	third := certificateUntil(t, time.Now().Add(72*time.Hour))
	h.own.replace(t, third)
	if out, err := h.command(t, "reload").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := h.everywhere(t)["http"]; got != bridgetest.Fingerprint(third) {
		t.Errorf("right after a reload: %s", got)
	}
	h.presents(t, "reloaded", third)
	allAsk()

	for name, server := range map[string]*securedServer{"dialled": dialled, "accepted": accepted} {
		if got := server.presented(); len(got) != 1 || got[0] != bridgetest.Fingerprint(h.own.certificate) {
			t.Errorf("the link that is %s: %v", name, got)
		}
	}
	accepted.Drop()
	await(t, "the next connection of the link that is accepted", func() bool {
		if len(accepted.presented()) == 1 && accepted.Dial(t.Context(), listen) != nil {
			return false
		}
		return len(accepted.presented()) > 1
	})
	if got := accepted.presented()[1]; got != bridgetest.Fingerprint(third) {
		t.Errorf("the next connection gets %s", got)
	}
}

func TestCertificateFilesThatAreUnusableKeepTheCurrentOne(t *testing.T) {
	t.Parallel()
	h := newTLSHouse(t)
	for name, test := range map[string]struct {
		spoil func()
		want  string
	}{
		"expired": {func() { h.own.replace(t, certificateUntil(t, time.Now().Add(-time.Minute))) }, "the certificate expired at "},
		"of another key": {func() {
			key, err := os.ReadFile(h.own.keyFile)
			if err != nil {
				t.Fatal(err)
			}
			h.own.replace(t, certificateUntil(t, time.Now().Add(48*time.Hour)))
			if err := os.WriteFile(h.own.keyFile, key, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "private key does not match public key"},
	} {
		h.own.replace(t, h.own.certificate)
		await(t, "no problem", func() bool { return h.counters(t)["baton_certificate_problem"] == 0 })
		test.spoil()
		await(t, "the alert "+name, func() bool { return h.counters(t)["baton_certificate_problem"] == 1 })
		found, _ := h.examined(t)
		if line := found["certificate"]; !strings.HasPrefix(line, "warn certificate: ") || !strings.Contains(line, test.want) || !strings.Contains(line, "run: baton reload") {
			t.Errorf("%s: doctor says %q", name, line)
		}
		lines := 0
		for _, line := range h.logged(t) {
			if line["msg"] == "certificate not replaced: the current one stays" && strings.Contains(fmt.Sprint(line["err"]), test.want) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%s: %d lines in the log", name, lines)
		}
		h.presents(t, name, h.own.certificate)
	}
}

func TestPublicListenerSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	h := newTLSHouse(t)
	transport := as(t, h.own)
	transport.ForceAttemptHTTP2 = true
	response, err := fetched(t, &http.Client{Transport: transport}, h.url()+"/.well-known/did.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK {
		t.Errorf("got %s %s", response.Proto, response.Status)
	}
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", h.public)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, protocol, err := presented(conn, &tls.Config{ServerName: "localhost", NextProtos: []string{"http/1.1"}}); err != nil || protocol != "http/1.1" {
		t.Errorf("a client of HTTP/1.1 gets %q, %v", protocol, err)
	}
}

func TestConfigCheckWarnsOfAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	own := certify(t, h, "gw.test")
	h.configure(t, fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n", own.certFile, own.keyFile))
	if out, err := h.plain(t, "config", "check").CombinedOutput(); err != nil || string(out) != h.config+": ok\n" {
		t.Errorf("a valid one: %v %s", err, out)
	}
	own.replace(t, certificateUntil(t, time.Now().Add(-time.Hour)))
	cmd := h.plain(t, "config", "check")
	var told strings.Builder
	cmd.Stderr = &told
	if out, err := cmd.Output(); err != nil || string(out) != h.config+": ok\n" {
		t.Errorf("an expired one: %v %s", err, out)
	}
	if !strings.Contains(told.String(), ": warning: tls.cert_file: the certificate expired at ") {
		t.Errorf("it says %q", told.String())
	}
}

// Not parallel: the ACME server reads the environment.
func TestGatewayOrdersItsCertificate(t *testing.T) {
	h := newHouse(t)
	h.secure = true
	port := func(address string) int { return int(netip.MustParseAddrPort(address).Port()) }
	challenges := federationtest.FreeAddr(t)
	pebble := bridgetest.NewPebble(t, bridgetest.PebbleConfig{HTTPPort: port(challenges), TLSPort: port(h.public)})
	pebble.Broken.Store(true)
	table := fmt.Sprintf("[tls.acme]\nemail = 'ops@gw.example'\ndomains = ['gw.example']\ndirectory = %q\nca_file = %q\nhttp_listen = %q\n", pebble.Directory, pebble.CAFile, challenges)
	h.configure(t, table)
	h.launch(t)
	await(t, "the failure", func() bool {
		found, _ := h.examined(t)
		return strings.HasPrefix(found["certificate"], "FAIL certificate: order a certificate from "+pebble.Directory)
	})
	if !slices.ContainsFunc(h.logged(t), func(line map[string]any) bool { return strings.Contains(fmt.Sprint(line["err"]), pebble.Directory) }) {
		t.Error("the log does not name the directory")
	}
	pebble.Broken.Store(false)
	if out, err := h.command(t, "reload").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pebble.Roots, ServerName: "gw.example"}, DisableKeepAlives: true}}
	var leaf *x509.Certificate
	await(t, "the certificate", func() bool {
		response, err := fetched(t, client, h.url()+"/.well-known/did.json")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		leaf = response.TLS.PeerCertificates[0]
		return response.StatusCode == http.StatusOK
	})
	found, _ := h.examined(t)
	if line := found["certificate"]; !strings.HasPrefix(line, "ok certificate: good until ") {
		t.Errorf("doctor says %q", line)
	}
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if response, err := fetched(t, plain, "http://"+challenges+"/a?b=c"); err != nil || response.Header.Get("Location") != h.url()+"/a?b=c" {
		t.Errorf("the listener for challenges: %v, %v", response, err)
	}

	orders := pebble.Orders.Load()
	if code := h.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	h.launch(t)
	await(t, "the kept certificate", func() bool {
		response, err := fetched(t, client, h.url()+"/.well-known/did.json")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.TLS.PeerCertificates[0].SerialNumber.Cmp(leaf.SerialNumber) == 0
	})
	if now := pebble.Orders.Load(); now != orders {
		t.Errorf("a restart made %d orders", now-orders)
	}
}
