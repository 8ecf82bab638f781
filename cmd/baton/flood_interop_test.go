//go:build interop && long

package main_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// The guarantees for honest clients while strangers flood the gateway with its default
// limits, and the bounds of the gateway's memory.
const (
	loginWithin   = 2 * time.Second
	deliverWithin = time.Second
	floodTime     = 5 * time.Second
	floodMiB      = 256
	relinkWithin  = 5 * time.Second
	endWithin     = 10 * time.Second
	recordMiB     = 16
	logMiB        = 96 // the log of commits is written back into the record at 64 MiB
)

// The addresses of the clients: all of 127.0.0.0/8 is on this machine, and each address
// counts for itself. The proxy may claim any other address for its clients.
const (
	proxyAddress  = "127.0.0.1"
	honestAddress = "127.0.0.9"
)

// A flooded gateway is the program as it is built, with its default limits.
type flooded struct {
	*house

	irc    string // address of the listener for IRC clients
	client string // address for honest clients, which have an address of their own
	socket string // the same over WebSocket
	tries  atomic.Int64
	passed atomic.Int64 // tries that the gateway accepted
}

// The floods run against one build, one after the other.
func TestFloodsLockOutNoHonestClient(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "baton")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, each := range []struct {
		name  string
		flood func(t *testing.T, binary string)
	}{
		{"connections of four addresses", floodFromFourAddresses},
		{"connections of one IPv6 network", floodFromOneNetwork},
		{"steps whose keys are on silent hosts", floodOfSilentHosts},
		{"sybils of one address", floodOfSybils},
	} {
		t.Run(each.name, func(t *testing.T) { each.flood(t, binary) })
	}
}

// newFlooded starts the gateway.
func newFlooded(t *testing.T, binary string, tables ...string) *flooded {
	t.Helper()
	f := &flooded{house: newHouse(t), irc: federationtest.FreeAddr(t)}
	f.binary = binary
	f.keep(t, "lab.send", "planted-send") // for the floods over a link
	f.keep(t, "lab.recv", "planted-recv")
	f.configure(t, append([]string{fmt.Sprintf("[irc.client]\nlisten = %q\nwebsocket = true\n", f.irc)}, tables...)...)
	text, err := os.ReadFile(f.config)
	if err != nil {
		t.Fatal(err)
	}
	trusted := strings.Replace(string(text), "[admin]", fmt.Sprintf("trusted_proxies = [%q]\n[admin]", proxyAddress+"/32"), 1)
	trusted = strings.Replace(trusted, `level = "debug"`, `level = "info"`, 1)
	if err := os.WriteFile(f.config, []byte(trusted), 0o600); err != nil {
		t.Fatal(err)
	}
	f.client = carry(t, func(ctx context.Context, near net.Conn) {
		far, err := connectFrom(ctx, honestAddress, f.irc)
		if err != nil {
			return
		}
		defer far.Close()
		relayBytes(near, far)
	})
	f.socket = carryLines(t, func(ctx context.Context) (*websocket.Conn, error) { return f.openSocket(ctx, "203.0.113.9") })
	f.start(t)
	f.ready(t)
	return f
}

// connectFrom connects from an address of this machine.
func connectFrom(ctx context.Context, from, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return d.DialContext(ctx, "tcp", to)
}

// openSocket connects over WebSocket for a client of the trusted proxy.
func (f *flooded) openSocket(ctx context.Context, client string) (*websocket.Conn, error) {
	conn, response, err := websocket.Dial(ctx, strings.Replace(f.url(), "http", "ws", 1)+"/irc", &websocket.DialOptions{
		Subprotocols: []string{"binary.ircv3.net"}, HTTPHeader: http.Header{"X-Forwarded-For": {client}},
	})
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	return conn, err
}

// figures are the measurements of honest clients.
type figures struct {
	logins, deliveries []time.Duration
}

// during runs attackers, and honest clients beside them, until the time is up.
func (f *flooded) during(t *testing.T, attackers []func(ctx context.Context), addresses ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), floodTime)
	defer stop()
	var running sync.WaitGroup
	for _, attack := range attackers {
		running.Go(func() { attack(ctx) })
	}
	var measured figures
	tick := time.NewTicker(floodTime / 10)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		f.serve(t, &measured, addresses[n%len(addresses)])
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	stop()
	running.Wait()
	f.report(t, measured)
}

// serve logs two honest clients in and has the one offer work to the other.
func (f *flooded) serve(t *testing.T, into *figures, address string) {
	t.Helper()
	sender, receiver := newParty(t), newParty(t)
	from, begun := f.logIn(t, address, sender)
	into.logins = append(into.logins, time.Since(begun))
	defer from.Close()
	to, begun := f.logIn(t, address, receiver)
	into.logins = append(into.logins, time.Since(begun))
	defer to.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, client := range []*bridgetest.IRCClient{from, to} {
		if err := client.Join(ctx, channelOfStage); err != nil {
			t.Fatal(err)
		}
	}
	offer := sender.offer(t, federation.HandoffTags, receiver.did, nil)
	begun = time.Now()
	if err := from.Send(offer.tags, "TAGMSG", channelOfStage); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Next(ctx, func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags["+freeq.at/eventid"] == offer.id
	}); err != nil {
		t.Fatalf("an honest client waits for an offer: %v; its sender has %q", err, from.Received())
	}
	into.deliveries = append(into.deliveries, time.Since(begun))
}

func (f *flooded) logIn(t *testing.T, address string, p party) (client *bridgetest.IRCClient, begun time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun = time.Now()
	client, err := bridgetest.LogInIRC(ctx, address, nextNick(), p.proves, "sasl", "message-tags", "standard-replies", "freeq.at/handoff")
	if err != nil {
		t.Fatalf("an honest client logs in: %v", err)
	}
	return client, begun
}

// report checks the measurements against the guarantees for honest clients.
func (f *flooded) report(t *testing.T, measured figures) {
	t.Helper()
	held := memoryKiB(t, f.process.Process.Pid, "VmRSS") >> 10
	log := f.mebibytes("baton.db-wal")
	if len(measured.logins) == 0 || len(measured.deliveries) == 0 {
		t.Fatal("no honest client was served")
	}
	login, delivery := slices.Max(measured.logins), slices.Max(measured.deliveries)
	t.Logf("%d tries, %d accepted; %d logins in at most %s, %d offers in at most %s; %d MiB held, %.1f MiB of log of commits",
		f.tries.Load(), f.passed.Load(), len(measured.logins), login.Round(time.Millisecond),
		len(measured.deliveries), delivery.Round(time.Millisecond), held, log)
	if login > loginWithin || delivery > deliverWithin {
		t.Errorf("a login took %s and an offer %s, want at most %s and %s", login, delivery, loginWithin, deliverWithin)
	}
	if held > floodMiB || log > logMiB {
		t.Errorf("%d MiB are held, and the log of commits has %.1f MiB; want at most %d and %d", held, log, floodMiB, logMiB)
	}
}

// mebibytes returns the size of a file of the record, 0 if there is none.
func (f *flooded) mebibytes(name string) float64 {
	info, err := os.Stat(filepath.Join(f.dir, "data", name))
	if err != nil {
		return 0
	}
	return float64(info.Size()) / (1 << 20)
}

// end stops the gateway, which writes the log of its commits back, and looks at the record.
func (f *flooded) end(t *testing.T) {
	t.Helper()
	begun := time.Now()
	if code := f.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	ended, record := time.Since(begun), f.mebibytes("baton.db")
	t.Logf("SIGTERM ends the gateway after %s; the record has %.1f MiB", ended.Round(time.Millisecond), record)
	if ended > endWithin || record > recordMiB {
		t.Errorf("the end took %s, and the record has %.1f MiB; want at most %s and %d MiB", ended, record, endWithin, recordMiB)
	}
}

// paced calls a function every so often until a context ends.
func paced(ctx context.Context, each time.Duration, do func(n int)) {
	tick := time.NewTicker(each)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			do(n)
		case <-ctx.Done():
			return
		}
	}
}

// dialEach is how often one attacker opens a connection.
const dialEach = 5 * time.Millisecond

// holds opens connections until a context ends, and closes none of them: the gateway does.
func (f *flooded) holds(ctx context.Context, dial func(n int) (net.Conn, error)) {
	var open []net.Conn
	paced(ctx, dialEach, func(n int) {
		conn, err := dial(n)
		if err != nil {
			return
		}
		f.tries.Add(1)
		_, _ = conn.Write([]byte("NICK ")) // the rest never comes
		open = append(open, conn)
	})
	for _, conn := range open {
		_ = conn.Close()
	}
}

// floodFromFourAddresses holds all connections that four IPv4 addresses get.
func floodFromFourAddresses(t *testing.T, binary string) {
	t.Helper()
	f := newFlooded(t, binary)
	var attackers []func(context.Context)
	for last := range 4 {
		from := fmt.Sprint("127.0.0.", 2+last)
		attackers = append(attackers, func(ctx context.Context) {
			f.holds(ctx, func(int) (net.Conn, error) { return connectFrom(ctx, from, f.irc) })
		})
	}
	f.during(t, attackers, f.client, f.socket)
	f.end(t)
}

// floodFromOneNetwork holds all connections that the addresses of one IPv6 /64 get, half of
// them over WebSocket.
func floodFromOneNetwork(t *testing.T, binary string) {
	t.Helper()
	f := newFlooded(t, binary)
	plain := func(ctx context.Context) {
		f.holds(ctx, func(n int) (net.Conn, error) {
			conn, err := connectFrom(ctx, proxyAddress, f.irc)
			if err == nil {
				_, err = fmt.Fprintf(conn, "PROXY TCP6 2001:db8:0:1::%x ::1 %d 6667\r\n", n+1, 1024+n%60_000)
			}
			return conn, err
		})
	}
	sockets := func(ctx context.Context) {
		f.holds(ctx, func(n int) (net.Conn, error) {
			conn, err := f.openSocket(ctx, fmt.Sprintf("2001:db8:0:1::%x:%x", 1, n+1))
			if err != nil {
				return nil, err
			}
			return websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary), nil
		})
	}
	f.during(t, []func(context.Context){plain, plain, sockets, sockets}, f.client, f.socket)
	f.end(t)
}

// silentHosts opens hosts that accept connections and never answer, and returns their DIDs.
func silentHosts(t *testing.T, n int) []federation.DID {
	t.Helper()
	var all []federation.DID
	for range n {
		var lc net.ListenConfig
		listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() }) // the backlog holds connections never accepted
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		all = append(all, federation.DID("did:web:localhost%3A"+port))
	}
	return all
}

// claims returns an offer that a DID signed, says the offer: no key of the DID can be had.
func claims(t *testing.T, did, to federation.DID) taggedStep {
	t.Helper()
	p := newParty(t)
	p.did = did
	return p.sealAnyhow(t, federation.HandoffTags, channelOfStage, func(id string) map[string]string {
		return offerFields(federation.HandoffTags, p, id, to, "Cite three sources")
	})
}

// floodOfSilentHosts sends steps over a link whose signers are DIDs of silent hosts: first 60
// of one user, then 8 of each of 17 users. The link comes back after a cut, and carries the
// offers of other users. SIGTERM ends the gateway in time.
func floodOfSilentHosts(t *testing.T, binary string) {
	t.Helper()
	hosts := silentHosts(t, 60)
	users := []string{"alice"}
	for n := range 17 {
		users = append(users, fmt.Sprint("mallory", n))
	}
	ircd, err := bridgetest.ListenIRCd(context.WithoutCancel(t.Context()), bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1AB", LinkName: "gw.test", SendPassword: "planted-recv", RecvPassword: "planted-send",
		Users: users, Channels: []string{channelOfStage},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ircd.Close)
	f := newFlooded(t, binary, "[fetch]\nallow_private = true\n", fmt.Sprintf(`[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = %q
sid = "9GW"
send_password_file = "lab.send"
recv_password_file = "lab.recv"
channels = [%q]
`, ircd.Addr(), channelOfStage))
	scout := newParty(t).did
	deliver := func() time.Duration {
		offer := newParty(t).offer(t, federation.HandoffTags, scout, nil)
		begun := time.Now()
		ircd.Tagmsg("alice", channelOfStage, offer.tags)
		if _, err := ircd.Next(patient(t), func(m bridgetest.IRCMessage) bool { return isLineOf(m, offer.id) }); err != nil {
			t.Fatalf("an honest offer: %v", err)
		}
		return time.Since(begun)
	}
	if err := ircd.Linked(patient(t)); err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		f.tries.Add(1)
		ircd.Tagmsg("mallory0", channelOfStage, claims(t, host, scout).tags)
	}
	latency := []time.Duration{deliver()}
	ircd.Drop()
	begun := time.Now()
	await(t, "the link to be dialled again", func() bool {
		return f.counters(t)[`baton_link_up{link="lab",network="spanningtree"}`] == 0 || time.Since(begun) > time.Second
	})
	if err := ircd.Linked(patient(t)); err != nil {
		t.Fatal(err)
	}
	back := time.Since(begun)
	for n := range 17 {
		for k := range 8 {
			f.tries.Add(1)
			ircd.Tagmsg(fmt.Sprint("mallory", n), channelOfStage, claims(t, hosts[(8*n+k)%len(hosts)], scout).tags)
		}
	}
	for range 10 {
		latency = append(latency, deliver())
	}
	f.during(t, nil, f.client, f.socket)
	t.Logf("a link that was cut is back after %s; offers of other users take at most %s", back.Round(time.Millisecond), slices.Max(latency).Round(time.Millisecond))
	if back > relinkWithin || slices.Max(latency) > deliverWithin {
		t.Errorf("the link took %s and offers %v; want at most %s and %s", back, latency, relinkWithin, deliverWithin)
	}
	f.end(t)
}

// floodOfSybils files offers of 385 DIDs of one address as fast as they go. The inbox of
// their victim still takes the offer of an honest sender.
func floodOfSybils(t *testing.T, binary string) {
	t.Helper()
	f := newFlooded(t, binary)
	victim := newParty(t)
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return connectFrom(ctx, "127.0.0.2", address)
		},
	}}
	t.Cleanup(client.CloseIdleConnections)
	const sybils, at = 385, 16
	var dids, refused atomic.Int64
	var attackers []func(context.Context)
	for range at {
		attackers = append(attackers, func(ctx context.Context) {
			for range (sybils + at - 1) / at {
				token := f.sybil(ctx, client)
				f.tries.Add(1)
				if token == "" {
					refused.Add(1)
					continue
				}
				dids.Add(1)
				for range 30 {
					f.tries.Add(1)
					if f.offers(ctx, client, token, victim.did) {
						f.passed.Add(1)
					}
				}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	f.during(t, attackers, f.client, f.socket)
	t.Logf("%d DIDs logged in, %d were refused; %d offers of them were filed", dids.Load(), refused.Load(), f.passed.Load())
	if most := int64(700); f.passed.Load() > most { // address_events_per_minute, and the tokens refilled meanwhile
		t.Errorf("%d offers were filed, want at most %d", f.passed.Load(), most)
	}
	f.honest(t, victim)
	f.end(t)
}

// honest has an honest sender offer work to the victim of a flood, which reads it.
func (f *flooded) honest(t *testing.T, victim party) {
	t.Helper()
	to, _ := f.logIn(t, f.client, victim)
	defer to.Close()
	sender := newParty(t)
	from, _ := f.logIn(t, f.client, sender)
	defer from.Close()
	if err := from.Join(patient(t), channelOfStage); err != nil {
		t.Fatal(err)
	}
	offer := sender.offer(t, federation.HandoffTags, victim.did, nil)
	if err := from.Send(offer.tags, "TAGMSG", channelOfStage); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Next(patient(t), func(m bridgetest.IRCMessage) bool { return m.Tags["+freeq.at/eventid"] == offer.id }); err != nil {
		t.Errorf("the victim waits for an honest offer: %v; its sender has %q", err, from.Received())
	}
}

// sybil proves a new DID from the address of the attacker, and returns the token, ""
// after a refusal.
func (f *flooded) sybil(ctx context.Context, client *http.Client) (token string) {
	_, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		return ""
	}
	p := party{secret, ed25519.PublicKey(secret[ed25519.SeedSize:]), ""}
	p.did = keyDIDOf(p.public)
	var given struct{ Challenge string }
	if exchangeJSON(ctx, client, f.url()+"/api/v1/auth/challenge", "", map[string]any{"did": p.did}, &given) != http.StatusOK {
		return ""
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	exchangeJSON(ctx, client, f.url()+"/api/v1/auth/token", "", map[string]any{
		"did": p.did, "challenge": given.Challenge, "signature": encodeSignature(p.sign([]byte(given.Challenge))),
	}, &tokens)
	return tokens.Access
}

// offers files an offer, and reports whether the gateway took it.
func (f *flooded) offers(ctx context.Context, client *http.Client, token string, to federation.DID) bool {
	status := exchangeJSON(ctx, client, f.url()+"/api/v1/handoffs", token, map[string]any{"to": to, "title": strings.Repeat("flood ", 40)}, nil)
	return status == http.StatusCreated
}
