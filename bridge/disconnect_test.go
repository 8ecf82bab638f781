package bridge_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// thorough is a link with work left after its connection has ended.
type thorough struct {
	*link
	bridge.DisconnectSignal
}

func TestDisconnectedLinkIsDiallingWhileItJudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, judged := make(chan struct{}), make(chan struct{})
		l := thorough{&link{deliver: func(federation.Delivery) error { return nil }}, bridge.NewDisconnectSignal()}
		l.run = func(ctx context.Context, up func()) error {
			up()
			select {
			case <-lost:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			l.SignalDisconnect()
			<-judged
			if ctx.Err() != nil {
				return errors.New("the loss has ended the work too")
			}
			return errors.New("connection reset")
		}
		h := newHouse(t, l.link)
		h.supervisor = bridge.NewSupervisor(l, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.DiscardHandler))
		losses := 0
		h.supervisor.OnLoss(func() { losses++ })
		defer h.start(t)()
		synctest.Wait()
		lost <- struct{}{}
		synctest.Wait()
		if got := h.supervisor.Status(); got.State != bridge.LinkDialling || h.supervisor.Up() {
			t.Errorf("after the connection broke: %+v, up %v", got, h.supervisor.Up())
		}
		if up := testutil.ToFloat64(h.metrics.LinkUp.WithLabelValues("spanningtree", "lab")); up != 0 {
			t.Errorf("baton_link_up is %v", up)
		}
		ids := h.owe(t, 1)
		h.wakes.Wake()
		synctest.Wait()
		if got := l.delivered(); len(got) != 0 {
			t.Errorf("%v are delivered to a link that is lost", got)
		}
		judged <- struct{}{}
		synctest.Wait()
		if got := h.supervisor.Status(); got.LastError != "connection reset" || losses != 1 {
			t.Errorf("after the work: %+v, with %d losses told", got, losses)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := h.supervisor.Status(); got.State != bridge.LinkUp || len(l.delivered()) != len(ids) {
			t.Errorf("after the next dial: %+v, with %v delivered", got, l.delivered())
		}
	})
}
