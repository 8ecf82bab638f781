package irc_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"baton/bridge/irc"
	"baton/federation"
)

// counter is a gateway that counts the steps it judges at a time.
type counter struct {
	judging atomic.Int64
	release chan struct{}
}

func (c *counter) submit(context.Context) (federation.Judgement, error) {
	c.judging.Add(1)
	defer c.judging.Add(-1)
	<-c.release
	return federation.Judgement{}, nil
}

func TestNoMoreStepsThanSlotsAreJudgedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, gateway := irc.NewSlots(irc.LinkSlots), &counter{release: make(chan struct{})}
		for range 100 {
			go func() { _, _ = slots.Do(t.Context(), gateway.submit) }() // it returns nil
		}
		synctest.Wait()
		if n := gateway.judging.Load(); n != irc.LinkSlots {
			t.Errorf("%d judged at a time, want %d", n, irc.LinkSlots)
		}
		close(gateway.release)
		synctest.Wait()
		if n := gateway.judging.Load(); n != 0 {
			t.Errorf("%d still judged", n)
		}
	})
}

func TestAStepThatIsSubmittedAgainLaterTakesNoSlotMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, log := irc.NewSlots(1), slog.New(slog.DiscardHandler)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := irc.SubmitWithRetry(ctx, log, slots, federation.Event{}, func(context.Context) (federation.Judgement, error) {
				return federation.Judgement{}, &federation.UnavailableError{What: "record"}
			})
			ended <- err
		}()
		synctest.Wait() // it waits for its next attempt
		if _, err := slots.Do(t.Context(), func(context.Context) (federation.Judgement, error) { return federation.Judgement{}, nil }); err != nil {
			t.Errorf("Do: %v", err)
		}
		stop()
		if err := <-ended; err == nil {
			t.Error("SubmitWithRetry returned nil for a step that was never judged")
		}
	})
}

func TestAWaitForASlotEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, gateway := irc.NewSlots(1), &counter{release: make(chan struct{})}
		go func() { _, _ = slots.Do(t.Context(), gateway.submit) }() // it returns nil
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := slots.Do(ctx, gateway.submit); !errors.Is(err, context.Canceled) {
			t.Errorf("Do: %v, want that its context ended", err)
		}
		close(gateway.release)
	})
}
