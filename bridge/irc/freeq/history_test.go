package freeq_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// given makes a record of a link's deliveries.
func given(rows *[]federation.CompletedDelivery) func(*freeq.Config, *freeq.Deps) {
	return func(_ *freeq.Config, d *freeq.Deps) {
		d.Given = func(_ context.Context, link string, since time.Time, limit int) ([]federation.CompletedDelivery, error) {
			var found []federation.CompletedDelivery
			for _, g := range *rows {
				if link == linkName && !g.At.Before(since) && len(found) < limit {
					found = append(found, g)
				}
			}
			return found, nil
		}
	}
}

func TestHistoryIsSentAgainAfterALoss(t *testing.T) {
	var rows []federation.CompletedDelivery
	h := newHouse(t, given(&rows))
	offer := h.offered(t, channel)
	own := h.step(t, offer, "scout", federation.Cancel, federation.Cancelled)
	foreign := h.offered(t, channel)
	foreign.View.Home = theirs
	hour := time.Now().Add(-time.Hour)
	for i, d := range []federation.Delivery{offer, own, foreign} {
		rows = append(rows, federation.CompletedDelivery{Delivery: d, At: hour.Add(time.Duration(i) * time.Second)})
	}
	h.run(t)
	if err := h.server.AwaitState(patient(t), offer.View.ID, federation.Cancelled); err != nil {
		t.Error(err)
	}
	for _, m := range h.server.Said() {
		if m["type"] == "tagmsg" || m["type"] == "privmsg" {
			t.Errorf("it is said live again: %v", m)
		}
	}
	h.expectNothingOdd(t)
}

func TestHistoryPage(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	at := func(second int) int64 { return start.Unix() + int64(second) }
	for name, test := range map[string]struct {
		perSecond []int // rows in each second
		since     int64
		limit     int
		rows      int
		last      int64 // second of the last row
		more      bool
	}{
		"all there is":                    {[]int{3, 2}, at(0), 0, 5, at(1), false},
		"from a time on":                  {[]int{3, 2}, at(1), 0, 2, at(1), false},
		"nothing":                         {[]int{3}, at(1), 0, 0, 0, false},
		"nothing of the future":           {[]int{3}, 99_999_999_999, 1, 0, 0, false},
		"as many as a page holds":         {[]int{300, 300}, at(0), 0, 500, at(1), true},
		"the rest":                        {[]int{300, 300}, at(1), 0, 300, at(1), false},
		"as many as are asked for":        {[]int{3, 2}, at(0), 4, 4, at(1), true},
		"a second that fills a page":      {[]int{600, 5}, at(0), 0, 601, at(1), true},
		"no more of a second than can be": {[]int{2100}, at(0), 0, 2000, at(0), true},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []federation.CompletedDelivery
			h := newHouse(t, given(&rows))
			d := h.offered(t, channel)
			for second, n := range test.perSecond {
				for range n {
					rows = append(rows, federation.CompletedDelivery{Delivery: d, At: time.Unix(at(second), 0)})
				}
			}
			page := freeq.Answer(t.Context(), h.link, test.since, test.limit)
			if len(page.Seconds) != test.rows || page.More != test.more || test.rows > 0 && page.Seconds[test.rows-1] != test.last {
				t.Errorf("%d rows, more %v, the last of %v", len(page.Seconds), page.More, page.Seconds)
			}
		})
	}
}

// Questions that wait for the record are answered before later ones.
func TestHistoryAnswersInOrder(t *testing.T) {
	release := make(chan struct{})
	h := newHouse(t, func(_ *freeq.Config, d *freeq.Deps) {
		d.Given = func(ctx context.Context, _ string, _ time.Time, limit int) ([]federation.CompletedDelivery, error) {
			if limit == 8 {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return nil, &federation.UnavailableError{What: "record"}
			}
			return nil, nil
		}
	})
	h.run(t)
	answers := func() (n int) {
		for _, m := range h.server.Said() {
			if m["type"] == "catchup_events" {
				n++
			}
		}
		return n
	}
	if _, err := h.server.AwaitLine(patient(t), "the first answer", func(m map[string]any) bool { return m["type"] == "catchup_events" }); err != nil {
		t.Fatal(err)
	}
	h.server.Say(map[string]any{"type": "catchup_request", "peer_id": h.server.ID(), "since_ts": 0, "limit": 7})
	h.server.Say(map[string]any{"type": "catchup_request", "peer_id": h.server.ID(), "since_ts": 99_999_999_999, "limit": 1})
	offer, err := h.alice().Offer(channel, "", "meanwhile")
	if err != nil {
		t.Fatal(err)
	}
	if ev := h.gateway.next(t); ev.ID != offer { // it was read after both questions
		t.Errorf("submitted %s", ev.ID)
	}
	if diff := cmp.Diff(1, answers()); diff != "" {
		t.Errorf("answers before the record answers (-want +got):\n%s", diff)
	}
	close(release)
	if err := h.server.AwaitAnswers(patient(t), 3); err != nil {
		t.Error(err)
	}
	h.expectNothingOdd(t)
}
