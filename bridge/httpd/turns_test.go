package httpd_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

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
