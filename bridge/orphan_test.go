package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// homed is a link to another home.
type homed struct {
	home  federation.HomeID
	heard time.Time
}

func (homed) Name() string                                       { return "fq" }
func (homed) Network() string                                    { return "freeq" }
func (homed) Run(context.Context, func()) error                  { return nil }
func (h homed) Home() federation.HomeID                          { return h.home }
func (h homed) Heard() time.Time                                 { return h.heard }
func (homed) Deliver(context.Context, federation.Delivery) error { return nil }
func (homed) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

func TestOrphanedAfterADayWithoutTheHome(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	long, lately := now.Add(-bridge.OrphanAfter), now.Add(time.Second-bridge.OrphanAfter)
	waiting := federation.View{Home: "fq.test", Remote: true, Moved: long}
	with := func(change func(v *federation.View)) federation.View {
		v := waiting
		change(&v)
		return v
	}
	for name, test := range map[string]struct {
		view  federation.View
		links []bridge.Link
		up    bool
		want  bool
	}{
		"no link leads to it":           {waiting, nil, false, true},
		"its link is down for long":     {waiting, []bridge.Link{homed{"fq.test", long}}, false, true},
		"its link is up":                {waiting, []bridge.Link{homed{"fq.test", long}}, true, false},
		"another link is up":            {waiting, []bridge.Link{homed{"other.test", now}}, true, true},
		"it was heard lately":           {waiting, []bridge.Link{homed{"fq.test", lately}}, false, false},
		"the handoff moved lately":      {with(func(v *federation.View) { v.Moved = lately }), nil, false, false},
		"the handoff is over":           {with(func(v *federation.View) { v.Over = true }), nil, false, false},
		"this gateway itself is a home": {with(func(v *federation.View) { v.Remote = false }), nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := bridge.Orphaned(test.view, test.links, func(bridge.Link) bool { return test.up }, now); got != test.want {
				t.Errorf("orphaned: %v, want %v", got, test.want)
			}
		})
	}
}
