package httpd_test

import (
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
