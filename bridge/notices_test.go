package bridge_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// notifier is a link that shows notices to its users.
type notifier struct {
	link

	mu   sync.Mutex
	away bool
	told []federation.NoticeKind
}

func (n *notifier) Notify(_ context.Context, notice federation.Notice) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return errors.New("the reader is away")
	}
	n.told = append(n.told, notice.Kind)
	return nil
}

// Time passes only by sleep: the commit of a notice wakes the worker, and a notice whose reader was
// away is tried when it is due.
func TestNoticesAreSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notifier{}
		h := newHouse(t, &n.link)
		topics := &bridgetest.Topics{}
		h.record.OnFiled(func(destination string) { topics.Wake(bridge.OutboxTopic(destination)) })
		supervisor := bridge.NewSupervisor(n, h.record.Rows(), topics, h.metrics, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { supervisor.Tell(ctx) })
		defer group.Wait()
		defer cancel()
		step := federationtest.File(federationtest.Offer(1, federationtest.Person("alice"), federationtest.Person("bob")), federation.View{})
		if _, err := h.record.Append(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		note := func(kind federation.NoticeKind) {
			t.Helper()
			synctest.Wait() // the worker rests
			notice := federation.Notice{Kind: kind, Event: step.Event, At: time.Now()}
			notice.Event.Arrival.Link = "lab"
			if err := h.record.Notify(t.Context(), notice); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		expect := func(want ...federation.NoticeKind) {
			t.Helper()
			n.mu.Lock()
			defer n.mu.Unlock()
			if !slices.Equal(n.told, want) {
				t.Errorf("told are %v, want %v", n.told, want)
			}
		}
		time.Sleep(time.Second / 2) // off any tick
		note(federation.NoticeDelayed)
		expect(federation.NoticeDelayed)

		n.mu.Lock()
		n.away = true
		n.mu.Unlock()
		note(federation.NoticeDelivered)
		n.mu.Lock()
		n.away = false
		n.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		expect(federation.NoticeDelayed, federation.NoticeDelivered)
	})
}
