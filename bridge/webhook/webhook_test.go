package webhook_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/webhook"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ada = federation.DID("did:plc:ada000000000000000000000")
	bob = federation.DID("did:plc:bob000000000000000000000")
)

// call is one request that an address got.
type call struct {
	url    string
	header http.Header
	body   []byte
	at     time.Time
}

// outside answers each address as a test has it. It notes the calls.
type outside struct {
	answer func(ctx context.Context, url string) (identity.Answer, error)

	mu    sync.Mutex
	calls []call
}

func (*outside) Callable(_ context.Context, address string) error {
	if strings.Contains(address, "inside") {
		return fmt.Errorf("%w: 10.9.8.7 is not public", identity.ErrNotAllowed)
	}
	return nil
}

func (o *outside) Call(ctx context.Context, url string, header http.Header, body []byte) (identity.Answer, error) {
	o.mu.Lock()
	o.calls = append(o.calls, call{url, header, body, time.Now()})
	o.mu.Unlock()
	return o.answer(ctx, url)
}

func (o *outside) got() []call {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls)
}

func always(status int) func(context.Context, string) (identity.Answer, error) {
	return func(context.Context, string) (identity.Answer, error) { return identity.Answer{Status: status}, nil }
}

// pusher is the link to the owners of the webhooks.
type pusher struct{ bridge.Link }

func (*pusher) Network() string { return "rest" }

func (*pusher) Pushes(federation.Webhook) bool { return true }

func (*pusher) Write(_ context.Context, _ federation.Webhook, p federation.Push) (kind string, data []byte, err error) {
	data, err = json.Marshal(map[string]string{"ref": p.Ref()})
	return "handoff." + string(p.Entry.Event.Verb), data, err
}

func (*pusher) Taken(context.Context, federation.Webhook, federation.Push) error { return nil }

type noWakes struct{}

func (noWakes) Wake(...string)                             {}
func (noWakes) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

// world is the hooks of a home on a record.
type world struct {
	record  *registry.Record
	outside *outside
	pusher  *pusher
	metrics *bridge.Metrics
	hooks   *webhook.Hooks
	steps   int
}

// Pusher implements the port of webhook.Deps.
func (w *world) Pusher(federation.Webhook) bridge.Pusher { return w.pusher } //nolint:ireturn // the port has it

func newWorld(record *registry.Record, answer func(context.Context, string) (identity.Answer, error)) *world {
	w := &world{record: record, outside: &outside{answer: answer}, pusher: &pusher{}, metrics: bridge.NewMetrics(prometheus.NewRegistry())}
	w.hooks = webhook.New(webhook.Config{MaxPerDID: 5, MaxAttempts: 12, Timeout: 5 * time.Second}, webhook.Deps{
		Record: record, Outside: w.outside, Key: bytes.Repeat([]byte{7}, 32), Pusher: w.Pusher,
		PubSub: noWakes{}, Metrics: w.metrics, Log: slog.New(slog.DiscardHandler),
	})
	return w
}

// withHook returns a world in memory in which bob has an address.
func withHook(t *testing.T, answer func(context.Context, string) (identity.Answer, error)) (*world, bridge.Registered) {
	t.Helper()
	w := newWorld(storetest.Open(t), answer)
	return w, w.register(t, bob, "https://bob.example/hook")
}

func (w *world) register(t *testing.T, of federation.DID, address string) bridge.Registered {
	t.Helper()
	made, err := w.hooks.Register(t.Context(), federation.Webhook{DID: of, URL: address}, time.Now())
	if err != nil {
		t.Fatalf("Register: %v", err)
	}
	return made
}

func (w *world) offer(t *testing.T, to federation.DID) federation.Filing {
	t.Helper()
	w.steps++
	f := federationtest.File(federationtest.Offer(w.steps, ada, to), federation.View{})
	w.file(t, f)
	return f
}

func (w *world) file(t *testing.T, f federation.Filing) {
	t.Helper()
	f.Filed = time.Now()
	if _, err := w.record.Append(t.Context(), f); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

// run calls hooks until stop is called.
func (w *world) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.hooks.Run(ctx) })
	return func() { cancel(); group.Wait() }
}

// waiting returns how much waits in the inbox of a DID.
func (w *world) waiting(t *testing.T, of federation.DID) int {
	t.Helper()
	n, _, err := w.record.Waiting(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pushes returns the pending and past pushes of a hook, the newest first.
func (w *world) pushes(t *testing.T, h federation.Webhook) []federation.Push {
	t.Helper()
	all, err := w.record.Pushes(t.Context(), h.ID, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// schedule is when attempts are made, in minutes after the first.
func schedule() []int { return []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1983} }

// made returns when calls were made, in minutes after the first, to the nearest.
func made(calls []call) []int {
	var minutes []int
	for _, c := range calls {
		minutes = append(minutes, int(c.at.Sub(calls[0].at).Round(time.Minute)/time.Minute))
	}
	return minutes
}

func TestScheduleBoundsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, hook := withHook(t, always(http.StatusInternalServerError))
		offer := w.offer(t, bob)
		defer w.run(t)()
		time.Sleep(34 * time.Hour)
		if d := cmp.Diff(schedule(), made(w.outside.got())); d != "" {
			t.Errorf("attempts, in minutes (-want +got):\n%s", d)
		}
		if p := w.pushes(t, hook.Webhook)[0]; p.State != federation.DeliveryDead || p.Attempt != 12 || p.Reason != "status 500" {
			t.Errorf("in the end: %+v", p)
		}
		letters, err := w.record.DeadLetters(t.Context(), federation.DeadFilter{}, 0, 10)
		if err != nil || len(letters) != 1 || letters[0].Event != offer.Event.ID || letters[0].To != federation.WebhookName(hook.ID) {
			t.Errorf("dead letters %+v, %v", letters, err)
		}
		if n := w.waiting(t, bob); n != 1 {
			t.Errorf("%d wait in the inbox, want the step that nobody took", n)
		}
		if n := testutil.ToFloat64(w.metrics.Outcomes.WithLabelValues("rest", "dead")); n != 1 {
			t.Errorf("%v dead are counted", n)
		}
	})
}

func TestScheduleSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := storetest.TempDir(t)
		open := func() *registry.Record { return storetest.OpenIn(t, dir) }
		w := newWorld(open(), always(http.StatusBadGateway))
		w.register(t, bob, "https://bob.example/hook")
		w.offer(t, bob)
		var calls []call
		for _, upTime := range []time.Duration{5 * time.Minute, 30 * time.Second, 20 * time.Minute, 34 * time.Hour} {
			stop := w.run(t)
			time.Sleep(upTime)
			stop()
			calls = append(calls, w.outside.got()...)
			if err := w.record.Close(); err != nil {
				t.Fatal(err)
			}
			w = newWorld(open(), always(http.StatusBadGateway))
		}
		if err := w.record.Close(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(schedule(), made(calls)); d != "" {
			t.Errorf("attempts, in minutes (-want +got):\n%s", d)
		}
	})
}

func TestScheduleMakesOverduePostsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := withHook(t, always(http.StatusBadGateway))
		w.offer(t, bob)
		stop := w.run(t)
		time.Sleep(2 * time.Minute)
		stop()
		w.offer(t, bob)
		time.Sleep(time.Hour)
		w.outside.answer = always(http.StatusOK)
		defer w.run(t)()
		time.Sleep(time.Second)
		if n := w.waiting(t, bob); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

func TestAttemptIsSignedUnderOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, hook := withHook(t, always(http.StatusServiceUnavailable))
		offer := w.offer(t, bob)
		defer w.run(t)()
		time.Sleep(2 * time.Minute)
		verifier, err := standardwebhooks.NewWebhook(hook.Secret)
		if err != nil {
			t.Fatal(err)
		}
		public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hook.PublicKey, "whpk_"))
		if err != nil {
			t.Fatal(err)
		}
		calls := w.outside.got()
		if len(calls) != 2 {
			t.Fatalf("%d calls", len(calls))
		}
		for _, c := range calls {
			if err := verifier.VerifyIgnoringTimestamp(c.body, c.header); err != nil {
				t.Errorf("v1: %v", err)
			}
			id, at := c.header.Get("webhook-id"), c.header.Get("webhook-timestamp")
			_, signature, _ := strings.Cut(c.header.Get("webhook-signature"), " v1a,")
			raw, err := base64.StdEncoding.DecodeString(signature)
			if err != nil || !ed25519.Verify(public, fmt.Appendf(nil, "%s.%s.%s", id, at, c.body), raw) {
				t.Errorf("v1a does not verify: %v", err)
			}
			if at != fmt.Sprint(c.at.Unix()) {
				t.Errorf("signed for %s at %d", at, c.at.Unix())
			}
			var body struct {
				Type string
				Data struct{ Ref string }
			}
			if err := json.Unmarshal(c.body, &body); err != nil || body.Type != "handoff.offer" || body.Data.Ref != offer.Event.ID.String() {
				t.Errorf("body %s, %v", c.body, err)
			}
		}
		first, second := calls[0].header, calls[1].header
		if first.Get("webhook-id") != second.Get("webhook-id") || !bytes.Equal(calls[0].body, calls[1].body) {
			t.Error("the second attempt is another delivery")
		}
		if first.Get("webhook-signature") == second.Get("webhook-signature") {
			t.Error("the second attempt is signed for the time of the first")
		}
		other := w.register(t, bob, "https://bob.example/other")
		if other.Secret == hook.Secret || other.PublicKey == hook.PublicKey {
			t.Error("two webhooks have one secret")
		}
	})
}

func TestAcceptedPostIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(storetest.Open(t), always(http.StatusAccepted))
		before := w.offer(t, bob)
		w.register(t, bob, "https://bob.example/hook")
		cancel := federationtest.File(federationtest.Step(50, before.Event, federation.Cancel, ada), before.View)
		w.file(t, cancel)
		defer w.run(t)()
		time.Sleep(time.Second)
		if n := w.waiting(t, bob); n != 0 {
			t.Errorf("%d wait", n)
		}
		var refs []string
		for _, c := range w.outside.got() {
			var body struct{ Data struct{ Ref string } }
			if err := json.Unmarshal(c.body, &body); err != nil {
				t.Fatal(err)
			}
			refs = append(refs, body.Data.Ref)
		}
		if d := cmp.Diff([]string{before.Event.ID.String(), cancel.Event.ID.String()}, refs); d != "" {
			t.Errorf("posted (-want +got):\n%s", d)
		}
		time.Sleep(2 * time.Hour)
		if n := len(w.outside.got()); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestGoneReceiverIsDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, hook := withHook(t, always(http.StatusGone))
		w.offer(t, bob)
		w.offer(t, bob)
		defer w.run(t)()
		time.Sleep(time.Second)
		w.offer(t, bob)
		time.Sleep(2 * time.Hour)
		if n := len(w.outside.got()); n != 1 {
			t.Errorf("%d calls", n)
		}
		got, err := w.record.Webhook(t.Context(), hook.ID)
		if err != nil || got.Disabled.IsZero() || !strings.Contains(got.Why, "410") {
			t.Errorf("hook %+v, %v", got, err)
		}
		told, err := w.record.NoticesTo(t.Context(), federation.InboxLink, bob, "", 10)
		if err != nil || len(told) != 1 || told[0].Kind != federation.NoticeDisabled || told[0].Webhook.ID != hook.ID {
			t.Errorf("told %+v, %v", told, err)
		}
		if n := w.waiting(t, bob); n != 3 {
			t.Errorf("%d wait in the inbox, want 3", n)
		}
	})
}

func TestSlowReceiverDelaysOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, url string) (identity.Answer, error) {
			if !strings.Contains(url, "slow") {
				return identity.Answer{Status: http.StatusOK}, nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second): // as long as the guarded client waits
			}
			return identity.Answer{}, &federation.UnavailableError{What: "slow.example", Err: context.DeadlineExceeded}
		}
		w := newWorld(storetest.Open(t), slow)
		var stuck bridge.Registered
		for n := range 20 {
			of := federation.DID(fmt.Sprintf("did:plc:slow%020d", n))
			stuck = w.register(t, of, "https://slow.example/hook")
			for range 3 {
				w.offer(t, of)
			}
		}
		w.register(t, bob, "https://bob.example/hook")
		for range 20 {
			w.offer(t, bob)
		}
		defer w.run(t)()
		time.Sleep(time.Second)
		if n := w.waiting(t, bob); n != 0 {
			t.Errorf("%d of the quick one wait for the slow ones", n)
		}
		time.Sleep(30 * time.Second)
		if p := w.pushes(t, stuck.Webhook)[2]; p.Attempt != 1 || p.Reason != "no answer in time" {
			t.Errorf("of a slow one: %+v", p)
		}
	})
}

func TestHookIsCalledOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		busy, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			busy += by
			most = max(most, busy)
		}
		w, _ := withHook(t, func(context.Context, string) (identity.Answer, error) {
			count(1)
			defer count(-1)
			time.Sleep(3 * time.Second)
			return identity.Answer{Status: http.StatusOK}, nil
		})
		for range 12 {
			w.offer(t, bob)
		}
		defer w.run(t)()
		time.Sleep(time.Minute)
		if n := w.waiting(t, bob); n != 0 {
			t.Errorf("%d wait", n)
		}
		mu.Lock()
		defer mu.Unlock()
		if most != 1 {
			t.Errorf("%d calls at a time", most)
		}
	})
}

func TestRetryAfterOfAHostIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := withHook(t, func(context.Context, string) (identity.Answer, error) {
			return identity.Answer{Status: http.StatusTooManyRequests, RetryAfter: 10 * time.Minute}, nil
		})
		w.offer(t, bob)
		defer w.run(t)()
		time.Sleep(25 * time.Minute)
		if d := cmp.Diff([]int{0, 10, 20}, made(w.outside.got())); d != "" {
			t.Errorf("attempts, in minutes (-want +got):\n%s", d)
		}
	})
}

func TestDeferredPostCountsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, hook := withHook(t, func(context.Context, string) (identity.Answer, error) {
			return identity.Answer{}, identity.ErrTurn
		})
		w.offer(t, bob)
		defer w.run(t)()
		time.Sleep(2 * time.Minute)
		if p := w.pushes(t, hook.Webhook)[0]; p.Attempt != 0 || p.State != federation.DeliveryWaiting {
			t.Errorf("%+v", p)
		}
		if n := len(w.outside.got()); n < 60 {
			t.Errorf("tried %d times in two minutes", n)
		}
	})
}

func TestPostInterruptedByShutdownIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, hook := withHook(t, func(ctx context.Context, _ string) (identity.Answer, error) {
			<-ctx.Done()
			return identity.Answer{}, ctx.Err()
		})
		w.offer(t, bob)
		stop := w.run(t)
		synctest.Wait()
		stop()
		if p := w.pushes(t, hook.Webhook)[0]; p.Attempt != 0 {
			t.Errorf("the attempt is counted: %+v", p)
		}
		w.outside.answer = always(http.StatusOK)
		defer w.run(t)()
		time.Sleep(time.Second)
		if n := w.waiting(t, bob); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

func TestCheckAddressRefusesPrivateAddresses(t *testing.T) {
	w := newWorld(storetest.Open(t), always(http.StatusOK))
	for name, tt := range map[string]struct {
		address string
		want    error
	}{
		"one inside":            {"https://inside.example/", bridge.ErrAddress},
		"one that is too long":  {"https://bob.example/" + strings.Repeat("x", 2048), bridge.ErrAddress},
		"one that is there now": {"https://bob.example/hook", federation.ErrTaken},
	} {
		if tt.want == federation.ErrTaken { //nolint:errorlint // what the table says
			w.register(t, bob, tt.address)
		}
		_, err := w.hooks.Register(t.Context(), federation.Webhook{DID: bob, URL: tt.address}, time.Now())
		if !errors.Is(err, tt.want) || strings.Contains(err.Error(), "10.9.8.7") {
			t.Errorf("%s: %v, want %v, and not what a name stands for", name, err, tt.want)
		}
	}
	for n := range 4 {
		w.register(t, bob, fmt.Sprintf("https://bob.example/%d", n))
	}
	if _, err := w.hooks.Register(t.Context(), federation.Webhook{DID: bob, URL: "https://bob.example/sixth"}, time.Now()); !errors.Is(err, federation.ErrTooManyWebhooks) {
		t.Errorf("one too many: %v", err)
	}
}

// The error shown to the owner of a hook reveals nothing about the gateway's own
// network.
func TestFailureRevealsNothingPrivate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, hook := withHook(t, func(context.Context, string) (identity.Answer, error) {
			return identity.Answer{}, &federation.UnavailableError{What: "bob.example", Err: errors.New("lookup bob.example on 10.9.8.7:53")}
		})
		w.offer(t, bob)
		defer w.run(t)()
		time.Sleep(time.Second)
		if p := w.pushes(t, hook.Webhook)[0]; p.Reason != "no answer" {
			t.Errorf("told %q", p.Reason)
		}
	})
}
