package httpd_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"baton/bridge/httpd"
)

func TestWhoAsksAgainIsHeardAfterThoseWhoseTurnItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns httpd.Turns
		turns.Wait() // nobody is before them
		turns.Schedule()
		turns.Schedule()
		heard := make(chan string, 2)
		ask := func(name string) {
			go func() { turns.Wait(); heard <- name }()
			synctest.Wait()
		}
		ask("first")
		turns.Begin()
		turns.Schedule()
		ask("second")
		if len(heard) > 0 {
			t.Errorf("%s is heard before a turn that was due", <-heard)
		}
		turns.Begin()
		if name := <-heard; name != "first" {
			t.Errorf("%s is heard first", name)
		}
		synctest.Wait()
		if len(heard) > 0 {
			t.Error("a turn is not waited for that was due")
		}
		turns.Begin()
		<-heard
	})
}

func TestWhoAsksAgainIsHeardOnceAnswersCouldBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns httpd.Turns
		for _, tt := range []struct{ took, want time.Duration }{
			{0, 0}, {time.Millisecond, time.Millisecond}, {10 * time.Second, 50 * time.Millisecond},
		} {
			turns.Schedule()
			turns.Schedule()
			time.Sleep(tt.took)
			turns.Begin()
			turns.Begin()
			begun := time.Now()
			turns.Wait()
			if waited := time.Since(begun); waited != tt.want {
				t.Errorf("heard %v after turns that took %v to begin, want %v", waited, tt.took, tt.want)
			}
			turns.Wait()
			if waited := time.Since(begun); waited != tt.want {
				t.Errorf("heard %v after them, when it was time", waited)
			}
		}
	})
}

func TestATurnThatTakesLongHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long, short = 3, 4
		var turns httpd.Turns
		var begun, over atomic.Int32
		end := make(chan struct{})
		for range long {
			turns.Run(func() { begun.Add(1); <-end })
		}
		for range short {
			turns.Run(func() { over.Add(1) })
		}
		synctest.Wait()
		if begun.Load() != long || over.Load() != short {
			t.Errorf("%d of %d that take long have begun, %d of %d others are over", begun.Load(), long, over.Load(), short)
		}
		close(end)
	})
}
