//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// TestDeferralWaitsForAKeyServer offers and cancels as a person whose directory is
// down, ends the gateway by force in between, and lets the directory come back.
func TestDeferralWaitsForAKeyServer(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	key := newPerson(t).key
	plc := newLedger(t, key)
	directory := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		plc.ServeHTTP(w, r)
	}))
	t.Cleanup(directory.Close)
	tables := fmt.Sprintf("[fetch]\nallow_private = true\n[identity]\nplc_url = %q\n", directory.URL)
	tw := newTwin(t, rfcTags, unlimited, tables)
	signer := plc.person(key)
	waits := func(s signed) {
		t.Helper()
		send(t, tw.alice, s.tags)
		if told := tw.refused(t, tw.alice, "SIGNATURE_UNVERIFIABLE", s.event); !strings.HasSuffix(told, "the step waits for a key") {
			t.Errorf("alice is told %q", told)
		}
	}
	offer := rfcTags.offer(signer, channel, extras{"to": tw.finn.DID, "title": title})
	forged := rfcTags.offer(signer, channel, extras{"to": tw.finn.DID, "title": title})
	forged.tags[vendor+"handoff-task"] = "something else"
	waits(offer)
	waits(forged)
	tw.explainsWaiting(t, offer)
	series := `baton_deferred{network="spanningtree"}`
	if counters := tw.counters(t); counters[series] != 2 ||
		counters[`baton_events_total{network="spanningtree",outcome="deferred",verb="offer",verdict="unverifiable"}`] != 2 {
		t.Errorf("%s is %v", series, counters[series])
	}
	tw.kill(t)
	tw.start(t)
	tw.ready(t)
	tw.explainsWaiting(t, offer)

	away.Store(false)
	send(t, tw.alice, rfcTags.step(signer, channel, "cancel", offer.handoff, nil).tags)
	rfcTags.await(t, tw.carol, "offer", offer.handoff)
	rfcTags.await(t, tw.carol, "cancel", offer.handoff)
	next(t, tw.alice, "the end of the forgery", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.HasPrefix(m.Params[1], "REFUSED "+forged.event+" ") && strings.Contains(m.Params[1], "the signature does not match")
	})
	await(t, "nothing to wait", func() bool { return tw.counters(t)[series] == 0 })
}

// explainsWaiting checks an operator's explanation of a deferred step.
func (tw *twin) explainsWaiting(t *testing.T, s signed) {
	t.Helper()
	var told struct {
		Verdict, Why, Document string
		Next                   []struct{ What, Time string }
	}
	tw.asks(t, &told, "explain", s.event)
	if told.Verdict != "unverifiable" || !strings.Contains(told.Why, "503") || told.Document != s.document ||
		len(told.Next) != 1 || told.Next[0].What != "judge" || told.Next[0].Time == "" {
		t.Errorf("explained as %+v", told)
	}
}
