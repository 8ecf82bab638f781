package relay_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// hubRounds is the number of disturbances of a hub: a round takes some two seconds, until the homes
// have connected again.
var hubRounds = flag.Int("hubrounds", 3, "how often the hub between two homes is killed or stopped")

// hubVar makes the program of the tests a hub, with the port and the folder in it.
const hubVar = "BATON_TEST_HUB"

func TestMain(m *testing.M) {
	if port := os.Getenv(hubVar); port != "" {
		beHub(port, os.Args[1])
		return
	}
	federationtest.RunParallel(8)
	// In one run of fifty a stopped embedded server leaves a file of its cluster open.
	const library = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(library+".(*fileStore).flushStreamStateLoop"), goleak.IgnoreTopFunction(library+"/ats.Register.func1"))
}

// beHub is a hub until the process is killed.
func beHub(port, dir string) {
	number, err := strconv.Atoi(port)
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "hub", Host: "127.0.0.1", Port: number, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true, SyncAlways: true,
	})
	if err != nil {
		panic(err)
	}
	s.Start()
	s.WaitForShutdown()
}

// hubProcess is a hub that can be killed, and come back over the rest on its disk.
type hubProcess struct {
	t       *testing.T
	port    string
	dir     string
	process *exec.Cmd
}

func newHubProcess(t *testing.T) *hubProcess {
	t.Helper()
	_, port, _ := strings.Cut(federationtest.FreeAddr(t), ":")
	h := &hubProcess{t: t, port: port, dir: t.TempDir()}
	h.start()
	t.Cleanup(h.kill)
	return h
}

func (h *hubProcess) start() {
	h.t.Helper()
	h.process = exec.CommandContext(context.WithoutCancel(h.t.Context()), os.Args[0], h.dir) // the test ends it itself
	h.process.Env = append(os.Environ(), hubVar+"="+h.port)
	h.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.process.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hubProcess) kill() {
	_ = h.process.Process.Kill()
	_ = h.process.Wait() // it says that it was killed
}

func (h *hubProcess) signal(s os.Signal) {
	h.t.Helper()
	if err := h.process.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hubProcess) wipe() {
	h.t.Helper()
	if err := os.RemoveAll(h.dir); err != nil {
		h.t.Fatal(err)
	}
}

// Two homes that reach each other only through a hub work on handoffs while that is killed,
// swallows everything, and loses its disk.
func TestHubKilledStoppedAndWipedLosesNothing(t *testing.T) {
	t.Parallel()
	by := *seed
	if by == 0 {
		by = rand.Uint64()
	}
	t.Logf("again: go test -run %s ./federation/relay -seed %d -hubrounds %d", t.Name(), by, *hubRounds)
	chance := rand.New(rand.NewPCG(by, by))
	hub := newHubProcess(t)
	all := newGates(t, "a.test", "b.test")
	meet(t, openHub("nats://127.0.0.1:"+hub.port), all...)
	a, b := &side{gate: all[0], to: all[1]}, &side{gate: all[1], to: all[0]}
	a.start()
	b.start()
	defer func() { a.kill(); b.kill() }()
	w := &workload{a: a, b: b, todo: map[federation.HandoffID]string{}}
	through := func() { await(t, func() bool { w.work(); return len(w.todo) == 0 }) }
	w.offer(1)
	through() // so that there are streams to lose
	var slowest time.Duration
	for round := range *hubRounds {
		w.offer(1 + chance.IntN(4))
		for range chance.IntN(4) {
			w.work()
		}
		switch {
		case round == *hubRounds/2:
			hub.kill()
			hub.wipe()
			w.offer(2)
			hub.start()
		case chance.IntN(2) == 0:
			hub.kill()
			w.offer(1)
			hub.start()
		default: // messages sent meanwhile are lost, and no connection breaks
			hub.signal(syscall.SIGSTOP)
			w.offer(2)
			w.work()
			hub.signal(syscall.SIGCONT)
		}
		if calm := time.Now(); chance.IntN(2) == 0 { // else the next one comes before that
			through()
			slowest = max(slowest, time.Since(calm))
		}
	}
	calm := time.Now()
	through()
	slowest = max(slowest, time.Since(calm))
	w.check(t, "offer accept complete")
	t.Logf("%d handoffs, caught up within %s each time", len(w.ids), slowest.Round(time.Millisecond))
}
