package inspircd_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
)

func TestLimitsOfUsersAndLinks(t *testing.T) {
	t.Run("a user that says too much is told once, counted, and heard again later; others are heard", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, peer, _ := piped(t, func(p *bridge.Ports) {
				p.Limits = bridge.Limits{UserEventsPerMinute: 5}
			})
			for range 15 {
				peer.Tagmsg("alice", "#ops", offerTags())
			}
			other := peer.Tagmsg("bob", "#ops", offerTags())
			heard := map[string]bool{} // users are judged side by side
			for range 6 {
				heard[h.gateway.next(t).Arrival.MessageID] = true
			}
			if len(heard) != 6 || !heard[other] {
				t.Errorf("filed %v, want bob's %q among six", heard, other)
			}
			if got := await(t, peer, "NOTICE").Params; got[0] != peer.UUID("alice") || !strings.HasPrefix(got[1], "RATE_LIMITED "+offerID+" ") {
				t.Errorf("notice %q", got)
			}
			if n := countOf(peer, "NOTICE"); n != 0 {
				t.Errorf("%d more notices", n)
			}
			if n := testutil.ToFloat64(h.metrics.Limited.WithLabelValues("spanningtree")); n != 10 {
				t.Errorf("counted %v", n)
			}
			time.Sleep(time.Minute)
			peer.Tagmsg("alice", "#ops", offerTags())
			h.gateway.next(t)
		})
	})
	t.Run("chat is nobody's business", func(t *testing.T) {
		h, peer := linked(t, nil, func(p *bridge.Ports) {
			p.Limits = bridge.Limits{UserEventsPerMinute: 1}
		})
		for range 10 {
			peer.Say("alice", "PRIVMSG #ops :hello")
			peer.Tagmsg("alice", "#ops", map[string]string{"+typing": "active"})
		}
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t)
	})
	t.Run("unreadable tags count, so that nobody makes the gateway talk", func(t *testing.T) {
		h, peer := linked(t, nil, func(p *bridge.Ports) {
			p.Limits = bridge.Limits{UserEventsPerMinute: 2}
		})
		for range 10 {
			peer.Send("@+freeq.at/handoff=\xff :" + peer.UUID("alice") + " TAGMSG #ops")
		}
		peer.Tagmsg("bob", "#ops", offerTags())
		h.gateway.next(t)
		await(t, peer, "NOTICE")
		await(t, peer, "NOTICE")
		if got := await(t, peer, "NOTICE").Params[1]; !strings.HasPrefix(got, "RATE_LIMITED * ") {
			t.Errorf("notice %q", got)
		}
		if n := countOf(peer, "NOTICE"); n != 0 {
			t.Errorf("%d more notices", n)
		}
	})
	t.Run("a link that says too much is read more slowly, and all of it is filed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, peer, _ := piped(t, func(p *bridge.Ports) {
				p.Limits = bridge.Limits{LinkEventsPerSecond: 10}
			})
			begun := time.Now()
			for range 30 {
				peer.Tagmsg("alice", "#ops", offerTags())
			}
			for range 30 {
				h.gateway.next(t)
			}
			if took := time.Since(begun).Round(time.Second); took != 2*time.Second {
				t.Errorf("took %v", took)
			}
			if n := countOf(peer, "NOTICE"); n != 0 {
				t.Errorf("%d notices", n)
			}
		})
	})
}
