package macp_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/macpmode/taskv1"
)

// A runtime without the task mode is told of work by signals, and operators read why.
func TestTaskModeFallsBackToSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bob", "baton", "stranger")
	bob := bridgetest.NewMACPClient(w.cfg.Listen, "bob", token("bob"))
	t.Cleanup(bob.Close)
	g := newGuestWith(t, w.cfg.Listen, token("baton"), "task-follow-on")
	describer, ok := g.link.(bridge.Describer)
	if !ok || len(describer.Describe().Obstacles) != 1 {
		t.Error("the link has no obstacle")
	}
	if counted := testutil.ToFloat64(g.metrics.BadInput.WithLabelValues("macp", "research", "no-task-mode")); counted != 1 {
		t.Errorf("%v runtimes without the mode are counted", counted)
	}
	session := bobOffers(t, bob, 1)
	offer := g.offered(t, 1)[0]
	g.take(t, answer(offer.Handoff, federation.Accept, "gladly"))
	awaits(t, bob, session, macpmode.TypeAccept)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	signalled := make(chan *macpv1.Envelope, 1)
	watching := make(chan struct{})
	go func() {
		defer close(signalled)
		_ = bridgetest.MACPWatch[macpv1.WatchSignalsRequest](ctx, bob, "WatchSignals", func() { close(watching) }, func(m *macpv1.WatchSignalsResponse) bool {
			signalled <- m.GetEnvelope()
			return false
		})
	}()
	<-watching
	g.take(t, answer(offer.Handoff, federation.Progress, "half"))
	if env := <-signalled; env.GetSender() != "baton" {
		t.Errorf("bob is told %v", env)
	}
}

// A report too old for its own ID is filed once, although the gateway ended before it could note the
// filing.
func TestTaskReportIsFiledOnceIfLate(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, fakeRuntime, false)
	w.stop()
	folder := storetest.TempDir(t)
	record := storetest.OpenIn(t, folder)
	w.deps.Journals = record.Journals
	w.start(t)
	id, session := w.handedOver(t)
	var refused atomic.Pointer[federation.EventID]
	w.gateway.mu.Lock()
	w.gateway.late = func(id federation.EventID) bool {
		if refused.CompareAndSwap(nil, &id) {
			return true
		}
		_ = record.Close() // the step is filed, and nothing after it is written
		return false
	}
	w.gateway.mu.Unlock()
	w.says(t, session, macpmode.TypeTaskAccept, "t1", &taskv1.TaskAcceptPayload{TaskId: id.String()})
	w.says(t, session, macpmode.TypeTaskUpdate, "t2", &taskv1.TaskUpdatePayload{TaskId: id.String(), Message: "half"})
	w.last(t, id, 3)
	w.stop()
	w.deps.Journals = storetest.OpenIn(t, folder).Journals
	t.Cleanup(func() { w.stop() }) // before the record is closed
	w.gateway.mu.Lock()
	w.gateway.late = func(id federation.EventID) bool { return *refused.Load() == id }
	w.gateway.mu.Unlock()
	w.start(t)
	w.says(t, session, macpmode.TypeTaskComplete, "t3", &taskv1.TaskCompletePayload{TaskId: id.String()})
	if ev := w.last(t, id, 4); ev.Verb != federation.Complete {
		t.Errorf("filed: %v", w.steps(id))
	}
}

// A session that ended, and whose copy was removed, is not copied again: its offer would become
// another handoff.
func TestTaskSessionStaysRemoved(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, fakeRuntime, false)
	transfer, task := bobOffers(t, w.bob, 1), session(9)
	offer := w.offered(t, 1)[0]
	w.take(t, answer(offer.Handoff, federation.Accept, "gladly"))
	w.asks(t, transfer, task, "", "h1")
	awaits(t, w.bob, task, macpmode.TypeTaskAccept)
	w.take(t, answer(offer.Handoff, federation.Complete, "three found"))
	w.says(t, task, macpmode.TypeCommitment, "c2", &macpv1.CommitmentPayload{CommitmentId: "c2", Action: "task.completed", OutcomePositive: true})
	names := func() []string {
		all, err := w.deps.Journals.JournalNames(t.Context(), "macp/", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	w.deps.Bounds = bounds(time.Nanosecond)
	await(t, "the copies to be removed", func() bool {
		w.stop()
		w.start(t) // a finished copy is removed at the start
		for end := time.Now().Add(time.Second); len(names()) > 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
		return len(names()) == 0
	})
	w.stop()
	w.start(t)
	bobOffers(t, w.bob, 2) // the runtime tells of it after the first session
	if offers := w.offered(t, 2); len(offers) != 2 || slices.ContainsFunc(names(), func(name string) bool { return strings.HasSuffix(name, transfer) || strings.HasSuffix(name, task) }) {
		t.Errorf("%d offers are filed, the journals are %v", len(offers), names())
	}
}
