package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge"
)

func TestLinkStatusNamesTheNextAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan error)
		h := newHouse(t, &link{run: func(ctx context.Context, up func()) error {
			up()
			select {
			case err := <-fail:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}})
		if got := h.supervisor.Status(); got != (bridge.Status{State: bridge.LinkDown}) {
			t.Errorf("before it runs: %+v", got)
		}
		stop := h.start(t)
		synctest.Wait()
		if got := h.supervisor.Status(); got != (bridge.Status{State: bridge.LinkUp}) {
			t.Errorf("once the peer has authenticated: %+v", got)
		}
		fail <- errors.Join(errors.New("connection reset"), errors.New("by the peer"))
		synctest.Wait()
		got := h.supervisor.Status()
		wait := time.Until(got.NextDial)
		if got.State != bridge.LinkDialling || got.LastError != "connection reset; by the peer" || wait <= 0 || wait > time.Second {
			t.Errorf("after the connection broke: %+v, next dial in %s", got, wait)
		}
		time.Sleep(wait)
		synctest.Wait()
		if got := h.supervisor.Status(); got.State != bridge.LinkUp || !got.NextDial.IsZero() || got.LastError == "" {
			t.Errorf("once it is back: %+v", got)
		}
		stop()
		if got := h.supervisor.Status(); got.State != bridge.LinkDown {
			t.Errorf("after the end: %+v", got)
		}
	})
}
