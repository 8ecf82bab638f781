package freeq_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// presence is a bridge.Presence for which one user may have left.
type presence struct {
	did  federation.DID
	left atomic.Bool
}

func (p *presence) Left(_ context.Context, did federation.DID) bool {
	return did == p.did && p.left.Load()
}

func (*presence) Changed(context.Context, bridge.PresenceChange) {}

func TestPresenceRemovesDepartedUsers(t *testing.T) {
	p := &presence{}
	p.did, _ = person("scout")
	h := newHouse(t, func(_ *freeq.Config, d *freeq.Deps) { d.Presence = p })
	freeq.LookForDepartures(h.link, 10*time.Millisecond)
	h.run(t)
	h.deliver(t, h.offered(t, channel))
	quit := func(m map[string]any) bool { return m["type"] == "quit" }
	joined, err := h.server.AwaitLine(patient(t), "the user", func(m map[string]any) bool { return m["type"] == "join" && m["did"] == string(p.did) })
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range h.server.Said() {
		if quit(m) {
			t.Errorf("quit of a user that is there: %v", m)
		}
	}
	p.left.Store(true)
	gone, err := h.server.AwaitLine(patient(t), "its end", quit)
	if err != nil {
		t.Fatal(err)
	}
	if gone["nick"] != joined["nick"] || gone["reason"] != "left its own network" {
		t.Errorf("%v, want that of %v", gone, joined["nick"])
	}
	p.left.Store(false)
	h.deliver(t, h.offered(t, channel))
	if _, err := h.server.AwaitLine(patient(t), "the user again", func(m map[string]any) bool {
		return m["type"] == "join" && m["did"] == string(p.did) && m["event_id"] != joined["event_id"]
	}); err != nil {
		t.Fatal(err)
	}
	h.expectNothingOdd(t)
}

func TestPresenceFollowsNickChanges(t *testing.T) {
	scout, _ := person("scout")
	h := newHouse(t)
	h.run(t)
	h.deliver(t, h.offered(t, channel))
	event := func(kind, nick string) {
		t.Helper()
		if _, err := h.server.AwaitLine(patient(t), kind+" of "+nick, func(m map[string]any) bool {
			return m["type"] == kind && strings.HasPrefix(fmt.Sprint(m["nick"]), nick)
		}); err != nil {
			t.Fatal(err)
		}
	}
	h.link.Follow(t.Context(), bridge.PresenceChange{Link: "lab", DID: scout, Name: "ranger", Now: scout})
	event("join", "ranger-gw")
	h.link.Follow(t.Context(), bridge.PresenceChange{Link: "lab", DID: scout, Gone: true})
	event("quit", "ranger-gw")
	h.expectNothingOdd(t)
}
