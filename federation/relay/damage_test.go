package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

// damages are ways to damage a file of a stream, of its index or of its reader at the hub.
var damages = map[string]func(text []byte) []byte{
	"flipped": func(text []byte) []byte { text[len(text)/2] ^= 1; return text },
	"start":   func(text []byte) []byte { text[1] ^= 1; return text },
	"end":     func(text []byte) []byte { text[len(text)-1] ^= 1; return text },
	"cut":     func(text []byte) []byte { return text[:len(text)/2] },
}

// damagedFiles returns the files below a folder with the stream from a home to b.
func damagedFiles(t *testing.T, dir string, from federation.HomeID) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if _, name, ok := strings.Cut(path, "FED_b_test__"+strings.ReplaceAll(string(from), ".", "_")+"/"); ok && err == nil && entry.Type().IsRegular() {
			if strings.HasSuffix(name, ".blk") {
				name = "blk"
			}
			found[filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name)] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The files of a stream and of its reader are damaged while the server is down, for each home in
// another way. After the restart, messages arrive again.
func TestHubCarriesOnAfterDamageToItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := federationtest.FreePort(t)
	hub := hubServer(t, dir, port)
	type state struct{ file, how string }
	var states []state
	names := []federation.HomeID{"b.test"}
	for _, file := range []string{"./meta.inf", "./meta.sum", "./blk", "msgs/index.db", "home/meta.inf", "home/meta.sum", "home/o.dat"} {
		for how := range damages {
			states, names = append(states, state{file, how}), append(names, federation.HomeID(fmt.Sprintf("a%d.test", len(names))))
		}
	}
	all := newGates(t, names...)
	b, others := all[0], all[1:]
	meetOne(t, smallStreams("nats://127.0.0.1:"+strconv.Itoa(port)), b, others...)
	offers := make([][]federation.HandoffID, len(others))
	offer := func(i int) {
		_, ev := others[i].take("alice", federation.Offer, to("bob"))
		offers[i] = append(offers[i], ev.ID)
	}
	deliver := func(i int, when string) {
		for deadline := time.Now().Add(6 * patience); others[i].deliver(b) != nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s damage to %v what was owed is still owed", when, states[i])
			}
		}
	}
	for i, a := range others {
		a.run(b)
		offer(i)
		deliver(i, "before")
	}
	stopHub(hub)
	for i, s := range states {
		damageFile(t, damagedFiles(t, dir, names[i+1])[s.file], damages[s.how])
	}
	hub = hubServer(t, dir, port)
	defer func() { stopHub(hub) }()
	for i := range others {
		offer(i)
		deliver(i, "after")
		for _, id := range offers[i] {
			b.comes(id, "offer")
		}
	}
}

// smallStreams is a server without accounts, by its address, with room for many streams.
type smallStreams string

func (h smallStreams) config(federation.HomeID) relay.HubConfig {
	return relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{string(h)}}, MaxBytes: 1 << 20}
}

// meetOne is meet for homes with exactly one common peer.
func meetOne(t *testing.T, at place, one *gate, others ...*gate) {
	t.Helper()
	for _, g := range append([]*gate{one}, others...) {
		hub, err := relay.OpenHub(at.config(g.id), g.id, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		g.deps.Hub, g.deps.Poster = hub, unreachable{}
		with := others
		if g != one {
			with = []*gate{one}
		}
		var peers []*relay.Peer
		for _, other := range with {
			peer := relay.NewPeer(relay.PeerConfig{Home: other.id, URL: "https://nowhere.test", Path: relay.ByRelay, Mode: relay.Allow}, g.deps)
			g.peers[other.id], peers = peer, append(peers, peer)
		}
		handler := g.handler()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { hub.Run(ctx, handler, func() []*relay.Peer { return peers }) })
		t.Cleanup(func() { cancel(); running.Wait(); hub.Close() })
	}
}

func damageFile(t *testing.T, path string, damage func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || len(text) < 2 {
		t.Fatalf("%q has %d bytes, %v", path, len(text), err)
	}
	if err := os.WriteFile(path, damage(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The accounts of a hub do not allow a home to delete a stream, so the server inside a gateway
// removes damaged files itself.
func TestHostRemovesDamagedFilesOfReaders(t *testing.T) {
	for how, damage := range damages {
		if how == "flipped" || how == "end" { // the server tolerates these
			continue
		}
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			accounts, seeds := writeAccounts(t, t.TempDir(), "a.test", "b.test")
			open := func(listen string) (*relay.Host, *bytes.Buffer) {
				t.Helper()
				var log bytes.Buffer
				host, err := relay.OpenHost(t.Context(), relay.HostConfig{Listen: listen, AccountsFile: accounts, Dir: dir}, slog.New(slog.NewTextHandler(&log, nil)))
				if err != nil {
					t.Fatal(err)
				}
				return host, &log
			}
			host, _ := open("127.0.0.1:0")
			url := host.URL()
			all := newGates(t, "a.test", "b.test")
			a, b := all[0], all[1]
			meet(t, accountsHub{t: t, url: url, seeds: seeds}, all...)
			a.run(b)
			_, first := a.take("alice", federation.Offer, to("bob"))
			if err := a.deliver(b); err != nil {
				t.Fatal(err)
			}
			host.Close()
			damageFile(t, damagedFiles(t, dir, "a.test")["home/o.dat"], damage)
			host, log := open(strings.TrimPrefix(url, "nats://"))
			defer host.Close()
			if !strings.Contains(log.String(), "damaged files of a reader removed") {
				t.Errorf("the log says %q", log)
			}
			_, second := a.take("alice", federation.Offer, to("bob"))
			for deadline := time.Now().Add(3 * patience); a.deliver(b) != nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("what was owed is still owed:\n%s", b.checked(time.Now))
				}
			}
			for _, id := range []federation.HandoffID{first.ID, second.ID} {
				b.comes(id, "offer")
			}
			if got := b.checked(time.Now); !strings.Contains(got, "ok from a.test: ") {
				t.Errorf("relay check says\n%s", got)
			}
		})
	}
}

// The server of another operator allows no home to delete a stream. The output of relay check has
// the cause and the remedy.
func TestCheckNamesDamagedFilesOfReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	accounts, seeds := writeAccounts(t, t.TempDir(), "a.test", "b.test")
	port := federationtest.FreePort(t)
	start := func() *server.Server {
		t.Helper()
		options, err := server.ProcessConfigFile(accounts)
		if err != nil {
			t.Fatal(err)
		}
		options.Host, options.Port, options.StoreDir, options.NoSigs, options.NoLog = "127.0.0.1", port, dir, true, true
		s, err := server.NewServer(options)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		if !s.ReadyForConnections(patience) {
			t.Fatal("the hub does not start")
		}
		return s
	}
	hub := start()
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	meet(t, accountsHub{t: t, url: hub.ClientURL(), seeds: seeds}, all...)
	a.run(b)
	a.take("alice", federation.Offer, to("bob"))
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	stopHub(hub)
	damageFile(t, damagedFiles(t, dir, "a.test")["home/o.dat"], damages["start"])
	hub = start()
	defer func() { stopHub(hub) }()
	const want = "delete the folder streams/FED_b_test__a_test/obs/home in its store_dir, and start it; nothing is lost"
	got := ""
	for deadline := time.Now().Add(3 * patience); !strings.Contains(got, want); time.Sleep(100 * time.Millisecond) {
		if got = b.checked(time.Now); time.Now().After(deadline) {
			t.Fatalf("relay check says\n%s", got)
		}
	}
}
