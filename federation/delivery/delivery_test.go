package delivery_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

type kind struct {
	to, hold string // its names for deliveries, and for an operator
	pool     federation.DestinationKind
	policy   delivery.Policy
	letters  bool // given up deliveries become dead letters; a notice is forgotten
	// fill files deliveries of ada in pairs, each pair in a lane, and then one of cleo. It returns the
	// lanes of ada, and the delivery of cleo.
	fill func(t *testing.T, record *registry.Record, pairs int) (lanes [][]string, last string)
}

const (
	ada  = federation.DID("did:plc:ada000000000000000000000")
	bob  = federation.DID("did:plc:bob000000000000000000000")
	cleo = federation.DID("did:plc:cleo00000000000000000000")
)

var hook = federation.WebhookName(federationtest.ID(9001))

func kinds() map[string]kind {
	return map[string]kind{
		"link":     {to: "lab", hold: "lab", policy: delivery.ToLink(), letters: true, fill: fillSteps("lab")},
		"home":     {to: "b.example", hold: "b.example", policy: delivery.ToLink(), letters: true, fill: fillSteps("b.example")},
		"registry": {to: federation.PeerDestination("b.test"), hold: "b.test", pool: federation.ToPeer, policy: delivery.ToRegistry(), letters: true, fill: fillDocuments},
		"webhook": {
			to: hook, hold: hook, pool: federation.ToWebhook, policy: delivery.ToWebhook(12, 5*time.Second), letters: true,
			fill: func(t *testing.T, record *registry.Record, pairs int) ([][]string, string) {
				t.Helper()
				must(t, record.AddWebhook(t.Context(), federation.Webhook{ID: federationtest.ID(9001), DID: bob, URL: "https://bob.test", Since: time.Now()}, 5))
				return fillSteps("lab")(t, record, pairs)
			},
		},
		"readers of notices": {to: federation.NoticesOf("lab"), hold: federation.NoticesOf("lab"), policy: delivery.ToReaders(), fill: fillNotices},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fillSteps(link string) func(t *testing.T, record *registry.Record, pairs int) (lanes [][]string, last string) {
	return func(t *testing.T, record *registry.Record, pairs int) (lanes [][]string, last string) {
		t.Helper()
		file := func(f federation.Filing) federation.Filing {
			f.Links, f.Filed = []string{link}, time.Now()
			_, err := record.Append(t.Context(), f)
			must(t, err)
			return f
		}
		for n := range pairs {
			offer := file(federationtest.File(federationtest.Offer(10*n+1, ada, bob), federation.View{}))
			cancel := file(federationtest.File(federationtest.Step(10*n+2, offer.Event, federation.Cancel, ada), offer.View))
			lanes = append(lanes, []string{offer.Event.ID.String(), cancel.Event.ID.String()})
		}
		return lanes, file(federationtest.File(federationtest.Offer(8000, cleo, bob), federation.View{})).Event.ID.String()
	}
}

func fillDocuments(t *testing.T, record *registry.Record, pairs int) (lanes [][]string, last string) {
	t.Helper()
	file := func(sender, key, message string) string {
		must(t, record.Enqueue(t.Context(), federation.PeerDelivery{
			Peer: "b.test", Sender: sender, Message: message, OrderKey: key, Document: []byte(`{}`), Queued: time.Now(),
		}))
		return message
	}
	for n := range pairs {
		key := fmt.Sprint("ada ", n)
		lanes = append(lanes, []string{file("ada", key, fmt.Sprint("first ", n)), file("ada", key, fmt.Sprint("second ", n))})
	}
	return lanes, file("cleo", "cleo", "last")
}

func fillNotices(t *testing.T, record *registry.Record, pairs int) (lanes [][]string, last string) {
	t.Helper()
	file := func(n int, of federation.DID) string {
		step := federationtest.File(federationtest.Offer(n, of, bob), federation.View{})
		step.Filed = time.Now()
		_, err := record.Append(t.Context(), step)
		must(t, err)
		notice := federation.Notice{Kind: federation.NoticeDelayed, Event: step.Event, At: time.Now()}
		notice.Event.Arrival.Link = "lab"
		must(t, record.Notify(t.Context(), notice))
		return notice.Ref()
	}
	var lane []string
	for n := range 2 * pairs {
		lane = append(lane, file(n+1, ada))
	}
	return [][]string{lane}, file(8000, cleo)
}

type peer struct {
	deliver func(ctx context.Context, d federation.Delivery) error
	pace    *delivery.Pace

	mu    sync.Mutex
	tried int
	took  []string
}

func (p *peer) Deliver(ctx context.Context, d federation.Delivery) error {
	p.mu.Lock()
	p.tried++
	p.mu.Unlock()
	err := error(nil)
	if p.deliver != nil {
		err = p.deliver(ctx, d)
	}
	if err == nil {
		p.mu.Lock()
		p.took = append(p.took, d.Ref())
		p.mu.Unlock()
	}
	return err
}

func (p *peer) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.took)
}

func (p *peer) tries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried
}

// start serves the destination as a gateway does, until stop is called: also after a panic.
func (k kind) start(t *testing.T, record *registry.Record, p *peer) (stop func()) {
	t.Helper()
	if p.pace == nil {
		p.pace = delivery.NewPace(0)
	}
	log := slog.New(slog.DiscardHandler)
	to := delivery.Destination{Name: k.to, Policy: k.policy, Pace: p.pace, Log: log, Deliver: p.Deliver}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if k.pool != "" {
			pool := delivery.Pool{
				Kind: k.pool, Policy: k.policy, Rows: record.Rows(), Log: log, Fault: func(context.Context, error) {},
				Open: func(_ context.Context, due federation.Destination) (delivery.Destination, error) {
					opened := to
					opened.Away = due.Failures
					opened.Pause = func(ctx context.Context, failures int, next time.Time) error {
						return record.Rows().Pause(ctx, due.Name, failures, next)
					}
					return opened, nil
				},
			}
			pool.Run(ctx, nil)
			return
		}
		worker := delivery.NewWorker(to, record.Rows())
		for ctx.Err() == nil {
			if err := worker.Run(ctx, nil); err != nil && fault.Of(err) == nil {
				t.Errorf("the worker ended with %v", err)
			}
			time.Sleep(time.Second)
		}
	})
	return func() { cancel(); group.Wait() }
}

// checkOrder fails the test unless each lane was taken once and in order.
func checkOrder(t *testing.T, took []string, lanes [][]string, last string) {
	t.Helper()
	all := 0
	for _, lane := range append(lanes, []string{last}) {
		all += len(lane)
		got := slices.DeleteFunc(slices.Clone(took), func(ref string) bool { return !slices.Contains(lane, ref) })
		if !slices.Equal(got, lane) {
			t.Errorf("a lane arrives as %q, want %q", got, lane)
		}
	}
	if len(took) != all {
		t.Errorf("%d deliveries are taken, want %d: %q", len(took), all, took)
	}
}

// each runs a test for each kind for which it makes sense; nil is for all.
func each(t *testing.T, sense func(k kind) bool, test func(t *testing.T, k kind)) {
	t.Helper()
	for name, k := range kinds() {
		if sense != nil && !sense(k) {
			continue
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, k) }) })
	}
}

func TestTurnAlternatesSendersAndKeepsLaneOrder(t *testing.T) {
	each(t, nil, func(t *testing.T, k kind) { //nolint:thelper // the body of a test, no helper
		record := storetest.Open(t)
		lanes, last := k.fill(t, record, 15)
		p := &peer{pace: delivery.NewPace(6)}
		stop := k.start(t, record, p)
		time.Sleep(10 * time.Second)
		if early := p.taken(); !slices.Contains(early, last) || len(early) > 8 {
			t.Errorf("the first ones are %q, want the one of the other sender among six", early)
		}
		time.Sleep(time.Hour)
		stop()
		checkOrder(t, p.taken(), lanes, last)
	})
}

func TestTurnDeliversNothingWhileHeld(t *testing.T) {
	each(t, nil, func(t *testing.T, k kind) { //nolint:thelper // the body of a test, no helper
		record := storetest.Open(t)
		lanes, last := k.fill(t, record, 2)
		must(t, record.Hold(t.Context(), federation.PausedQueue{To: k.hold, Since: time.Now()}))
		p := &peer{}
		stop := k.start(t, record, p)
		time.Sleep(5 * time.Minute)
		if took := p.taken(); len(took) != 0 {
			t.Errorf("%q are delivered while it is held", took)
		}
		must(t, record.Release(t.Context(), k.hold))
		time.Sleep(time.Minute)
		stop()
		checkOrder(t, p.taken(), lanes, last)
	})
}

func TestDeadLetterIsDeliveredAfterReplay(t *testing.T) {
	each(t, func(k kind) bool { return k.letters }, func(t *testing.T, k kind) { //nolint:thelper // the body of a test, no helper
		record := storetest.Open(t)
		lanes, last := k.fill(t, record, 1)
		dies := true
		p := &peer{deliver: func(_ context.Context, d federation.Delivery) error {
			if dies && d.Ref() == last {
				return &federation.DeadLetterError{Reason: federation.DeadFailed, Why: "no"}
			}
			return nil
		}}
		stop := k.start(t, record, p)
		time.Sleep(time.Minute)
		stop()
		dead, err := record.DeadLetters(t.Context(), federation.DeadFilter{}, 0, 10)
		must(t, err)
		if len(dead) != 1 || dead[0].Why != "no" || slices.Contains(p.taken(), last) {
			t.Fatalf("dead letters are %+v, and taken %q", dead, p.taken())
		}
		dies = false
		revived, err := record.Revive(t.Context(), dead[0].ID, time.Now())
		must(t, err)
		stop = k.start(t, record, p)
		time.Sleep(time.Minute)
		stop()
		if !revived {
			t.Error("the dead letter is not put back")
		}
		checkOrder(t, p.taken(), lanes, last)
	})
}

// The process ends after the peer has the delivery, and before that is on record.
func TestDeliveryIsRepeatedAfterACrash(t *testing.T) {
	each(t, nil, func(t *testing.T, k kind) { //nolint:thelper // the body of a test, no helper
		folder := storetest.TempDir(t)
		record := storetest.OpenIn(t, folder)
		lanes, last := k.fill(t, record, 1)
		crashed := &peer{}
		var once sync.Once
		crashed.deliver = func(context.Context, federation.Delivery) error {
			once.Do(func() { must(t, record.Close()) })
			return nil
		}
		stop := k.start(t, record, crashed)
		time.Sleep(10 * time.Second)
		stop()
		record = storetest.OpenIn(t, folder)
		p := &peer{}
		stop = k.start(t, record, p)
		time.Sleep(10 * time.Minute) // a lease of the ended process lasts some minutes
		stop()
		checkOrder(t, p.taken(), lanes, last)
		must(t, record.Close())
	})
}

// victim names the folder of the record of the killed process.
const victim = "BATON_TEST_KILLED"

// The process is killed after the peer has a delivery, and before that is on record. The test runs
// itself again as that process.
func TestDeliveryIsDueAfterAKill(t *testing.T) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			if folder := os.Getenv(victim); folder != "" {
				k.start(t, storetest.OpenIn(t, folder), &peer{deliver: func(_ context.Context, d federation.Delivery) error {
					fmt.Println("attempt", d.Ref())
					select {} // until the kill
				}})
				select {}
			}
			folder := storetest.TempDir(t)
			record := storetest.OpenIn(t, folder)
			lanes, last := k.fill(t, record, 1)
			must(t, record.Close())
			test, sub, _ := strings.Cut(t.Name(), "/")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			process := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+test+"$/^"+sub+"$") // this test again
			process.Env = append(os.Environ(), victim+"="+folder)
			out, err := process.StdoutPipe()
			must(t, errors.Join(err, process.Start()))
			line, err := bufio.NewReader(out).ReadString('\n')
			must(t, errors.Join(err, process.Process.Kill()))
			if _, tried, is := strings.Cut(strings.TrimSpace(line), "attempt "); !is || tried != lanes[0][0] && tried != last {
				t.Errorf("the process prints %q, want an attempt on a first delivery", line)
			}
			_ = process.Wait() // it was killed
			record = storetest.OpenIn(t, folder)
			made := make(chan struct{}, 100)
			p := &peer{deliver: func(context.Context, federation.Delivery) error { made <- struct{}{}; return nil }}
			stop := k.start(t, record, p)
			for range 3 {
				select {
				case <-made:
				case <-ctx.Done():
				}
			}
			stop()
			checkOrder(t, p.taken(), lanes, last)
		})
	}
}

// Replicas share the destinations without a connection. A link is served by the replica that holds
// its lease: package server shows that.
func TestPoolsOfReplicasDeliverOnce(t *testing.T) {
	each(t, func(k kind) bool { return k.pool != "" }, func(t *testing.T, k kind) { //nolint:thelper // the body of a test, no helper
		record := storetest.Open(t)
		lanes, last := k.fill(t, record, 20)
		p := &peer{deliver: func(context.Context, federation.Delivery) error { time.Sleep(time.Second); return nil }}
		first, second := k.start(t, record, p), k.start(t, record, p)
		time.Sleep(time.Hour)
		first()
		second()
		checkOrder(t, p.taken(), lanes, last)
	})
}

func TestPoolContainsPanics(t *testing.T) {
	each(t, nil, func(t *testing.T, k kind) { //nolint:thelper // the body of a test, no helper
		record := storetest.Open(t)
		lanes, last := k.fill(t, record, 2)
		var once sync.Once
		p := &peer{deliver: func(context.Context, federation.Delivery) error {
			once.Do(func() { panic("a fault") })
			return nil
		}}
		stop := k.start(t, record, p)
		time.Sleep(10 * time.Minute)
		stop()
		checkOrder(t, p.taken(), lanes, last)
	})
}

func TestBackoffGrowsWhileADestinationIsAway(t *testing.T) {
	each(t, nil, func(t *testing.T, k kind) { //nolint:thelper // the body of a test, no helper
		record := storetest.Open(t)
		lanes, last := k.fill(t, record, 1)
		back := time.Now().Add(10 * time.Minute)
		p := &peer{deliver: func(context.Context, federation.Delivery) error {
			if time.Now().Before(back) {
				return &delivery.LaterError{Away: true, Err: errors.New("no answer")}
			}
			return nil
		}}
		if k.policy.Pause.First == 0 { // it waits delivery by delivery
			p.deliver = func(context.Context, federation.Delivery) error {
				if time.Now().Before(back) {
					return &federation.UnavailableError{What: "peer", Err: errors.New("no answer")}
				}
				return nil
			}
		}
		stop := k.start(t, record, p)
		time.Sleep(time.Until(back))
		if n := p.tries(); n < 3 || n > 90 {
			t.Errorf("%d attempts within ten minutes, want some, and fewer and fewer", n)
		}
		time.Sleep(30 * time.Minute)
		stop()
		checkOrder(t, p.taken(), lanes, last)
	})
}

func TestBackoffDoublesUpToItsLongestWait(t *testing.T) {
	t.Parallel()
	exact := delivery.Backoff{First: time.Minute, Longest: 16 * time.Hour}
	for n, want := range map[int]time.Duration{0: time.Minute, 1: time.Minute, 2: 2 * time.Minute, 5: 16 * time.Minute, 12: 16 * time.Hour, 1 << 30: 16 * time.Hour} {
		if got := exact.After(n, 0); got != want {
			t.Errorf("after %d failures %s, want %s", n, got, want)
		}
	}
	aged := delivery.Backoff{First: time.Second, Young: 30 * time.Second, Share: 20, Longest: 10 * time.Minute, Jitter: true}
	for _, test := range []struct{ age, longest time.Duration }{{0, 30 * time.Second}, {time.Hour, 3 * time.Minute}, {24 * time.Hour, 10 * time.Minute}} {
		if got := aged.After(20, test.age); got < test.longest*3/4-time.Second || got > test.longest+time.Second {
			t.Errorf("of age %s it waits %s, want up to a quarter less than %s", test.age, got, test.longest)
		}
	}
}
