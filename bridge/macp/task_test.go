package macp_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"baton/bridge"
	"baton/bridge/bridgetest"
	"baton/federation"
	"baton/translate/macpmode"
	"baton/translate/macpmode/macpv1"
)

// A runtime without the task mode is told of work by signals, and operators read why.
func TestWorkIsToldBySignalsWhereTheTaskModeIsAbsent(t *testing.T) {
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
	signalled := make(chan *macpv1.Envelope, 1)
	watching := make(chan struct{})
	go func() {
		defer close(signalled)
		_ = bridgetest.MACPWatch[macpv1.WatchSignalsRequest](t.Context(), bob, "WatchSignals", func() { close(watching) }, func(m *macpv1.WatchSignalsResponse) bool {
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
