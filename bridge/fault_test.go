package bridge_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// Each part of a link panics once.
func TestSupervisorDialsAgainAfterAFault(t *testing.T) {
	for name, arm := range map[string]func(l *link, once func()){
		"run": func(l *link, once func()) {
			l.run = func(ctx context.Context, up func()) error { once(); return staysUp(ctx, up) }
		},
		"run while up": func(l *link, once func()) {
			l.run = func(ctx context.Context, up func()) error { up(); once(); <-ctx.Done(); return context.Cause(ctx) }
		},
		"delivery": func(l *link, once func()) {
			l.deliver = func(federation.Delivery) error { once(); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, armed := &link{run: staysUp, deliver: func(federation.Delivery) error { return nil }}, true
				arm(l, func() {
					if armed {
						armed = false
						var nothing *link
						nothing.runs = nil
					}
				})
				h := newHouse(t, l)
				var log bytes.Buffer
				h.supervisor = bridge.NewSupervisor(l, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.NewTextHandler(&log, nil)))
				ids := h.owe(t, 1)
				stop := h.start(t)
				time.Sleep(time.Minute)
				synctest.Wait()
				if !h.supervisor.Up() || len(l.runs) != 2 {
					t.Errorf("the link was run %d times, and is up: %t", len(l.runs), h.supervisor.Up())
				}
				if n := testutil.ToFloat64(h.metrics.Faults.WithLabelValues("link lab")); n != 1 {
					t.Errorf("%v faults are counted", n)
				}
				if last := l.delivered()[len(l.delivered())-1]; last.Event != ids[1] {
					t.Errorf("delivered last is %v, want %v", last.Event, ids[1])
				}
				stop()
				if text := log.String(); !strings.Contains(text, "fault contained") || !strings.Contains(text, "fault_test.go") {
					t.Errorf("the log says %s", text)
				}
			})
		})
	}
}
