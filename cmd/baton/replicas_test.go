//go:build interop

package main_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// replicas is how many gateways serve one home, and how many NATS servers wake them.
const replicas = 3

// broker is one of the NATS servers of a cluster.
type broker struct {
	args    []string
	process *exec.Cmd
}

// newCluster starts NATS servers, built from the module that this one requires, and returns
// them with their addresses.
func newCluster(t *testing.T) (nodes []*broker, urls []string) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "nats-server")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v\n%s", err, out)
	}
	var routes, ports []string
	for range replicas {
		routes, ports = append(routes, federationtest.FreeAddr(t)), append(ports, federationtest.FreeAddr(t))
	}
	for i := range replicas {
		urls = append(urls, "nats://"+ports[i])
		n := &broker{args: []string{
			binary, "-n", fmt.Sprintf("n%d", i), "-a", "127.0.0.1", "-p", portOf(ports[i]), "-js", "-sd", filepath.Join(dir, fmt.Sprintf("n%d", i)),
			"-cluster_name", "home", "-cluster", "nats://" + routes[i], "-routes", "nats://" + strings.Join(routes, ",nats://"),
		}}
		n.run(t)
		t.Cleanup(n.kill)
		nodes = append(nodes, n)
	}
	return nodes, urls
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func (n *broker) run(t *testing.T) {
	t.Helper()
	n.process = exec.CommandContext(context.WithoutCancel(t.Context()), n.args[0], n.args[1:]...)
	n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.process.Start(); err != nil {
		t.Fatal(err)
	}
}

func (n *broker) kill() {
	_ = n.process.Process.Kill()
	_ = n.process.Wait() // it was killed
}

// bridgehead passes on the connections of gateways to a network, and counts them.
type bridgehead struct {
	addr string
	now  atomic.Int32
	most atomic.Int32 // at a time
}

func newBridgehead(t *testing.T, to string) *bridgehead {
	t.Helper()
	b := &bridgehead{}
	b.addr = takeCalls(t, func(ctx context.Context, gateway net.Conn) { b.pass(ctx, gateway, to) })
	return b
}

func (b *bridgehead) pass(ctx context.Context, gateway net.Conn, to string) {
	defer gateway.Close()
	var dialer net.Dialer
	network, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	now := b.now.Add(1)
	defer b.now.Add(-1)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
	defer context.AfterFunc(ctx, func() { _ = gateway.Close() })()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(gateway, network); _ = gateway.Close() })
	_, _ = io.Copy(network, gateway)
	_ = network.Close()
	back.Wait()
}

// fellowship is the gateways of one home.
type fellowship struct {
	t      *testing.T
	houses []neighbour
	key    string // with which offers are signed
	to     string

	mu      sync.Mutex
	offered []string // ids of handoffs that a gateway said are filed
}

// newFellowship starts gateways with a common record, NATS servers, and common
// secrets.
func newFellowship(t *testing.T, dsn string, urls []string) (*fellowship, *network, *bridgehead) {
	t.Helper()
	f := &fellowship{t: t, key: filepath.Join(t.TempDir(), "seed"), to: newPerson(t).did}
	if err := os.WriteFile(f.key, []byte(hex.EncodeToString(newPerson(t).key.Seed())), 0o600); err != nil {
		t.Fatal(err)
	}
	first := newHouse(t)
	lab := newNetwork(t, first, "lab", "1LA")
	head := newBridgehead(t, lab.LinkAddr)
	list, err := json.Marshal(urls)
	if err != nil {
		t.Fatal(err)
	}
	shared := linkTable("lab", "lab.irc.test", head.addr) + "[store]\ndriver = \"postgres\"\ndsn_file = \"dsn\"\n[relay]\nurls = " + string(list) + "\n"
	first.keep(t, "dsn", dsn)
	for i := range replicas {
		h := first
		if i > 0 {
			h = newHouse(t)
			for _, name := range []string{"keys", "dsn", "lab.send", "lab.recv"} { // the first one has made its keys
				copyAll(t, filepath.Join(first.dir, "data", name), filepath.Join(h.dir, "data", name))
			}
		}
		h.configure(t, shared)
		h.start(t)
		f.houses = append(f.houses, neighbour{h, "gw.test"})
	}
	return f, lab, head
}

// copyAll copies a file, or a folder with its contents.
func copyAll(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
}

// owners returns which gateways say that the link is up at them.
func (f *fellowship) owners() (up []int) {
	for i, h := range f.houses {
		if h.gone() {
			continue
		}
		var page struct {
			Items []struct{ Name, State string }
		}
		out, ok := h.baton(f.t, "link", "list", "--json")
		if !ok || json.Unmarshal([]byte(out), &page) != nil {
			continue
		}
		for _, l := range page.Items {
			if l.Name == "lab" && l.State == "up" {
				up = append(up, i)
			}
		}
	}
	return up
}

// owner waits for the one gateway with the link.
func (f *fellowship) owner(after int) int {
	f.t.Helper()
	found := -1
	await(f.t, "a gateway to have the link", func() bool {
		if up := f.owners(); len(up) == 1 && up[0] != after {
			found = up[0]
		}
		return found >= 0
	})
	return found
}

// load offers handoffs, to each gateway in turn, until ctx ends.
func (f *fellowship) load(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		h := f.houses[n%replicas]
		var out bytes.Buffer
		err := h.runs(f.t, &out, io.Discard, "handoff", "offer", "--key-file", f.key, "--to", f.to, "--channel", channel, "--title", fmt.Sprintf("Offer %d", n)) //nolint:contextcheck // steps under way continue
		if err == nil {
			f.mu.Lock()
			f.offered = append(f.offered, strings.TrimSpace(out.String()))
			f.mu.Unlock()
		}
	}
}

func (f *fellowship) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.offered)
}

// Three gateways serve one home, woken by three NATS servers. Under load the one with the
// link is killed, and a NATS server with it: another one takes the link, and never two have
// it; every step reported as filed gets to the channel.
func TestReplicasKeepOneLinkOverKills(t *testing.T) {
	t.Parallel()
	nodes, urls := newCluster(t)
	f, lab, head := newFellowship(t, postgrestest.Start(t).Schema(t), urls)
	alice := lab.join(t, "alice", "message-tags")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	over := make(chan struct{})
	go func() { defer close(over); f.load(ctx) }()
	dead, owner := -1, f.owner(-1)
	for i := range replicas { // each has its turn
		before := f.count()
		await(t, "load", func() bool { return f.count() > before+2 })
		f.houses[owner].kill(t)
		nodes[i].kill()
		killed := time.Now()
		heir := f.owner(owner)
		t.Logf("%d was killed, and %d has the link after %s", owner, heir, time.Since(killed).Round(time.Millisecond))
		nodes[i].run(t)
		if dead >= 0 {
			f.houses[dead].start(t)
		}
		dead, owner = owner, heir
	}
	f.houses[dead].start(t)
	if code := f.houses[owner].stop(t); code != 0 {
		t.Errorf("exit code %d of one that was told to end, want 0", code)
	}
	f.owner(owner)
	end()
	<-over
	if most := head.most.Load(); most != 1 {
		t.Errorf("%d gateways had the link at a time", most)
	}
	for _, id := range f.offered {
		next(t, alice, "offer "+id, func(m bridgetest.IRCMessage) bool {
			return m.Command == "TAGMSG" && m.Tags[vendor+"handoff-id"] == id
		})
	}
	t.Logf("%d offers", len(f.offered))
}

// The files of deploy/cluster run as their smoke script runs them.
func TestReplicasOfTheExampleFilesHandOver(t *testing.T) {
	t.Parallel()
	_, urls := newCluster(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "deploy", "cluster", "smoke"))
	cmd.Env = append(os.Environ(), "DSN="+postgrestest.Start(t).Schema(t), "NATS="+strings.Join(urls, ","), "PORT="+portOf(federationtest.FreeAddr(t)))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "ok: ") {
		t.Fatalf("smoke: %v\n%s", err, out)
	}
}
