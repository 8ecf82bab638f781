package relay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

type accountsHub struct {
	t     *testing.T
	url   string
	seeds map[federation.HomeID]string // files
}

func newAccountsHub(t *testing.T, homes ...federation.HomeID) accountsHub {
	t.Helper()
	path, seeds := writeAccounts(t, t.TempDir(), homes...)
	hub := accountsHub{t: t, seeds: seeds}
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.StoreDir, options.NoSigs, options.NoLog = "127.0.0.1", -1, t.TempDir(), true, true
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stopHub(s) })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the hub does not start")
	}
	hub.url = s.ClientURL()
	return hub
}

func newAccounts(t *testing.T, dir string, homes ...federation.HomeID) (accounts []relay.Account, seeds map[federation.HomeID]string) {
	t.Helper()
	seeds = map[federation.HomeID]string{}
	for _, home := range homes {
		seed, err := relay.NewSeed()
		if err != nil {
			t.Fatal(err)
		}
		public, err := relay.PublicOf(seed)
		if err != nil {
			t.Fatal(err)
		}
		seeds[home] = filepath.Join(dir, string(home)+".nk")
		if err := os.WriteFile(seeds[home], seed, 0o600); err != nil {
			t.Fatal(err)
		}
		accounts = append(accounts, relay.Account{Home: home, Public: public})
	}
	return accounts, seeds
}

func nameOf(home federation.HomeID) string { return strings.ReplaceAll(string(home), ".", "_") }

func writeAccounts(t *testing.T, dir string, homes ...federation.HomeID) (path string, seeds map[federation.HomeID]string) {
	t.Helper()
	accounts, seeds := newAccounts(t, dir, homes...)
	files, err := relay.WriteAccounts(accounts, relay.HubLayout{})
	if err != nil {
		t.Fatal(err)
	}
	text := files[0].Text
	path = filepath.Join(dir, "hub.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, seeds
}

func (h accountsHub) config(home federation.HomeID) relay.HubConfig {
	return relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{h.url}, NKeyFile: h.seeds[home]}}
}

func (h accountsHub) connect(home federation.HomeID, inboxes string) *nats.Conn {
	h.t.Helper()
	key, err := nats.NkeyOptionFromSeed(h.seeds[home])
	if err != nil {
		h.t.Fatal(err)
	}
	conn, err := nats.Connect(h.url, key, nats.CustomInboxPrefix(inboxes), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(conn.Close)
	return conn
}

// A home's rights at a hub shared by several operators, tested with a client of NATS and the home's
// own key.
func TestAccountsSeparateHomes(t *testing.T) {
	hub := newAccountsHub(t, "a.test", "b.test", "c.test")
	all := newGates(t, "a.test", "b.test", "c.test")
	meet(t, hub, all...)
	a, b := all[0], all[1]
	a.run(b) // so that the streams are there, and carried something
	for _, c := range []struct {
		name, subject string
		may           bool
	}{
		{"sends to another", "fed.b_test.a_test.steps", true},
		{"sends as another", "fed.b_test.c_test.steps", false},
		{"sends as another to itself", "fed.a_test.b_test.steps", false},
		{"sends to an unknown home", "fed.d_test.a_test.steps", false},
		{"looks at its own stream", "$JS.API.STREAM.INFO.FED_a_test__b_test", true},
		{"looks at a stream of another", "$JS.API.STREAM.INFO.FED_b_test__a_test", false},
		{"looks at a stream between others", "$JS.API.STREAM.INFO.FED_b_test__c_test", false},
		{"lists streams", "$JS.API.STREAM.LIST", false},
		{"names streams", "$JS.API.STREAM.NAMES", false},
		{"reads a message of another", "$JS.API.STREAM.MSG.GET.FED_b_test__a_test", false},
		{"reads a message of another directly", "$JS.API.DIRECT.GET.FED_b_test__a_test", false},
		{"pulls as another", "$JS.API.CONSUMER.MSG.NEXT.FED_b_test__a_test.home", false},
		{"makes a consumer at another", "$JS.API.CONSUMER.CREATE.FED_b_test__a_test.spy", false},
		{"makes a second consumer at its own", "$JS.API.CONSUMER.CREATE.FED_a_test__b_test.spy", false},
		{"makes a stream of another's name", "$JS.API.STREAM.CREATE.FED_b_test__a_test", false},
		{"makes a stream over all", "$JS.API.STREAM.CREATE.ALL", false},
		{"acknowledges for another", "$JS.ACK.FED_b_test__a_test.home.1.1.1.1.1", false},
		{"purges a stream of another", "$JS.API.STREAM.PURGE.FED_b_test__a_test", false},
		{"purges its own stream", "$JS.API.STREAM.PURGE.FED_a_test__b_test", false},
		{"deletes a stream of another", "$JS.API.STREAM.DELETE.FED_b_test__a_test", false},
		{"deletes a message of another", "$JS.API.STREAM.MSG.DELETE.FED_b_test__a_test", false},
		{"changes its own stream", "$JS.API.STREAM.UPDATE.FED_a_test__b_test", true},
		{"changes a stream of another", "$JS.API.STREAM.UPDATE.FED_b_test__a_test", false},
		{"answers another's question", "_INBOX.b_test.x", false},
		{"asks the server for its clients", "$SYS.REQ.SERVER.PING", false},
	} {
		conn := hub.connect("a.test", "_INBOX.a_test")
		err := conn.PublishRequest(c.subject, "_INBOX.a_test.answer", nil)
		if err == nil {
			err = conn.FlushTimeout(patience)
		}
		if err == nil {
			err = conn.LastError()
		}
		if denied := err != nil && strings.Contains(strings.ToLower(err.Error()), "permissions violation"); denied == c.may || err != nil && !denied {
			t.Errorf("a home that %s: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		name, subject string
		may           bool
	}{
		{"its own answers", "_INBOX.a_test.>", true},
		{"the answers to another", "_INBOX.b_test.>", false},
		{"all answers", "_INBOX.>", false},
		{"what goes between others", "fed.b_test.c_test.>", false},
		{"what goes between homes", "fed.>", false},
		{"what comes to itself, past its stream", "fed.a_test.>", false},
		{"everything", ">", false},
		{"what the server says", "$SYS.>", false},
	} {
		conn := hub.connect("a.test", "_INBOX.a_test")
		_, err := conn.SubscribeSync(c.subject)
		if err == nil {
			err = conn.FlushTimeout(patience)
		}
		if err == nil {
			err = conn.LastError()
		}
		if (err == nil) != c.may {
			t.Errorf("a home that listens to %s: %v", c.name, err)
		}
	}
}

// A message in the account of a home arrives at no other home.
func TestAccountsConfineTheirHome(t *testing.T) {
	hub := newAccountsHub(t, "a.test", "b.test")
	all := newGates(t, "a.test", "b.test")
	meet(t, hub, all...)
	a, b := all[0], all[1]
	a.run(b)
	b.run(a)
	a.worksWith(b)
	conn := hub.connect("a.test", "_INBOX.a_test")
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "FED_a_test__b_test")
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo(); got.State.LastSeq < 2 || len(got.Config.Subjects) != 1 || got.Config.Subjects[0] != "fed.a_test.b_test.>" {
		t.Errorf("the stream to a home is %+v", got)
	}
}

// A home that never connected has no stream: a sender gets an error at once.
func TestAccountsOfAbsentHomesDelayNobody(t *testing.T) {
	hub := newAccountsHub(t, "a.test", "b.test")
	all := newGates(t, "a.test", "b.test")
	meet(t, hub, all[0])
	start := time.Now()
	if _, err := all[0].deps.Hub.Carry(t.Context(), "b.test", relay.Envelope{Body: []byte("{}")}); err == nil || time.Since(start) > patience/2 {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
}

func TestWriteAccountsRefusesAmbiguousHomes(t *testing.T) {
	for name, accounts := range map[string][]relay.Account{
		"one":           {{Home: "a.test"}},
		"the same":      {{Home: "a.test"}, {Home: "a.test"}},
		"no name":       {{Home: "a.test"}, {Home: ""}},
		"a subject":     {{Home: "a.test"}, {Home: "*.>"}},
		"an underscore": {{Home: "a.test"}, {Home: "a_test"}},
		"a quote":       {{Home: "a.test"}, {Home: `b" }`}},
	} {
		if text, err := relay.WriteAccounts(accounts, relay.HubLayout{}); err == nil {
			t.Errorf("%s: got\n%s", name, text)
		}
	}
	if _, err := relay.PublicOf([]byte("SU")); err == nil {
		t.Error("two letters are a seed")
	}
}
