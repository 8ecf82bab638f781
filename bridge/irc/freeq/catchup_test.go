package freeq_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// pageRows is how many rows a server sends at once.
const pageRows = 500

func TestCatchUpReadsALogPageByPage(t *testing.T) {
	h := newHouse(t)
	alice := h.alice()
	want := map[federation.EventID]bool{}
	for n := range 3*pageRows + 1 {
		id, err := alice.Offer(channel, "", fmt.Sprintf("offer %d", n))
		if err != nil {
			t.Fatal(err)
		}
		want[id] = true
	}
	h.server.Spread(pageRows - 10) // so many in a second
	h.run(t)
	for len(want) > 0 {
		delete(want, h.gateway.next(t).ID)
	}
	h.expectNothingOdd(t)
}

// A question names seconds: the log itself shows no more than a page of one.
func TestCatchUpReadsACrowdedSecondFromTheAPI(t *testing.T) {
	h := newHouse(t)
	alice := h.alice()
	want := map[federation.EventID]bool{}
	for n := range 2*pageRows - 100 {
		id, err := alice.Offer(channel, "", fmt.Sprintf("offer %d", n))
		if err != nil {
			t.Fatal(err)
		}
		want[id] = true
	}
	h.server.Spread(2*pageRows - 101) // all but the last in one second
	h.run(t)
	for len(want) > 0 {
		delete(want, h.gateway.next(t).ID)
	}
	h.expectNothingOdd(t)
}

func TestCatchUpSkipsTheRestOfACrowdedSecond(t *testing.T) {
	h := newHouse(t, func(_ *freeq.Config, d *freeq.Deps) {
		d.Fetch = func(context.Context, string) ([]byte, error) {
			return nil, &federation.UnavailableError{What: "the API"}
		}
	})
	alice := h.alice()
	var last federation.EventID
	for n := range 2*pageRows + 1 {
		id, err := alice.Offer(channel, "", fmt.Sprintf("offer %d", n))
		if err != nil {
			t.Fatal(err)
		}
		last = id
	}
	h.server.Spread(2 * pageRows) // the first thousand in one second, of which a page shows half
	h.run(t)
	for h.gateway.next(t).ID != last {
	}
	h.expectNothingOdd(t)
}

// limited sets the rates of a link.
func limited(l bridge.Limits) func(*freeq.Config, *freeq.Deps) {
	return func(_ *freeq.Config, d *freeq.Deps) { d.Limits = l }
}

// takesAll waits until each of some steps was submitted.
func (h *house) takesAll(t *testing.T, want map[federation.EventID]bool) {
	t.Helper()
	for len(want) > 0 {
		delete(want, h.gateway.next(t).ID)
	}
	h.expectNothingOdd(t)
}

func TestCatchUpIgnoresTheRateOfTheLink(t *testing.T) {
	t.Parallel()
	h := newHouse(t, limited(bridge.Limits{LinkEventsPerSecond: 50}))
	alice := h.alice()
	want := map[federation.EventID]bool{}
	for n := range 240 {
		id, err := alice.Offer(channel, "", fmt.Sprintf("offer %d", n))
		if err != nil {
			t.Fatal(err)
		}
		want[id] = true
	}
	h.server.Spread(10) // an hour ago
	h.run(t)
	h.takesAll(t, want)
}

func TestCatchUpFetchesLiveStepsAboveTheRate(t *testing.T) {
	for name, limits := range map[string]bridge.Limits{
		"of the link": {LinkEventsPerSecond: 10},
		"of the user": {UserEventsPerMinute: 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, limited(limits))
			h.run(t)
			alice := h.alice()
			want := map[federation.EventID]bool{}
			for n := range 32 {
				id, err := alice.Offer(channel, "", fmt.Sprintf("offer %d", n))
				if err != nil {
					t.Fatal(err)
				}
				want[id] = true
			}
			h.takesAll(t, want)
		})
	}
}
