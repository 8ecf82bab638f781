package relay_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/relay"
)

// patience bounds the wait of a test for a required event.
const patience = time.Minute

// open returns the relay of a gateway without replicas.
func open(*testing.T) *relay.Relay { return relay.Local() }

func shared(t *testing.T) *relay.Relay {
	t.Helper()
	s := hubServer(t, t.TempDir(), -1)
	t.Cleanup(func() { stopHub(s) })
	r := join(t, "a.test", s.ClientURL())
	await(t, func() bool { return r.Ready() == nil })
	return r
}

func relays() map[string]func(t *testing.T) *relay.Relay {
	return map[string]func(t *testing.T) *relay.Relay{"local": open, "shared": shared}
}

func woken(t *testing.T, wake <-chan struct{}) bool {
	t.Helper()
	select {
	case <-wake:
		return true
	case <-time.After(patience):
		return false
	}
}

func settle(t *testing.T, r *relay.Relay) {
	t.Helper()
	wake, stop := r.Subscribe("the end of " + t.Name())
	defer stop()
	r.Wake("the end of " + t.Name())
	if !woken(t, wake) {
		t.Fatal("the relay delivers nothing")
	}
}

func TestWakeReachesAllSubscribers(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			first, stopFirst := r.Subscribe("scout")
			defer stopFirst()
			second, stopSecond := r.Subscribe("scout")
			defer stopSecond()
			third, stopThird := r.Subscribe("eliza")
			defer stopThird()
			other, stopOther := r.Subscribe("scholar")
			defer stopOther()
			r.Wake("scout", "eliza", "unknown")
			for name, wake := range map[string]<-chan struct{}{"first": first, "second": second, "third": third} {
				if !woken(t, wake) {
					t.Errorf("the %s was not woken", name)
				}
			}
			settle(t, r)
			if len(other) > 0 {
				t.Error("another topic was woken")
			}
		})
	}
}

func TestTopicIsAnyString(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			topics := []string{
				"", "scout", "Scout", "feed.lab", "feed", "feed.*", "feed.>", ">", "*", ".", "$SYS.>", "a b", "ü",
				"x\r\nPUB y 0\r\n", "\x00", strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20) + "y",
			}
			wakes := make([]<-chan struct{}, len(topics))
			for i, topic := range topics {
				wake, stop := r.Subscribe(topic)
				defer stop()
				wakes[i] = wake
			}
			for i, topic := range topics {
				r.Wake(topic)
				if !woken(t, wakes[i]) {
					t.Errorf("%.20q was not woken", topic)
				}
			}
			settle(t, r)
			for i, topic := range topics {
				if len(wakes[i]) > 0 {
					t.Errorf("%.20q was woken by another topic", topic)
				}
			}
		})
	}
}

func TestWakeBlocksOnNoSubscriber(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			lazy, stop := r.Subscribe("scout")
			defer stop()
			for range 100_000 {
				r.Wake("scout")
			}
			settle(t, r)
			if !woken(t, lazy) {
				t.Error("the last waiter was not woken")
			}
		})
	}
}

// A waiter that looks after each token sees the last change, however close the changes
// are: no token is lost between a look and the next one.
func TestWakeKeepsTheLastOfABurst(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			const bursts, changes = 5000, 3
			r := open(t)
			wake, stop := r.Subscribe("scout")
			defer stop()
			var made atomic.Int64
			for burst := range int64(bursts) {
				var waker sync.WaitGroup
				waker.Go(func() {
					for range changes {
						made.Add(1)
						r.Wake("scout")
					}
				})
				for seen := made.Load(); seen < (burst+1)*changes; seen = made.Load() {
					if !woken(t, wake) {
						t.Fatalf("no token after change %d", made.Load())
					}
				}
				waker.Wait()
			}
		})
	}
}

func TestWakeSkipsStoppedSubscribers(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			wake, stop := r.Subscribe("scout")
			stop()
			stop() // again, to no effect
			r.Wake("scout")
			settle(t, r)
			if len(wake) > 0 {
				t.Error("got a token after stop")
			}
		})
	}
}

func TestSubscribeStopLeavesOtherSubscribers(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			_, leave := r.Subscribe("scout")
			stays, stop := r.Subscribe("scout")
			leave()
			leave() // again, to no effect
			r.Wake("scout")
			if !woken(t, stays) {
				t.Error("the waiter that stays was not woken")
			}
			stop()
			again, stop := r.Subscribe("scout")
			defer stop()
			leave()
			r.Wake("scout")
			if !woken(t, again) {
				t.Error("the waiter that came after all others had left was not woken")
			}
		})
	}
}

func TestRelaysAreSeparate(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			here, there := open(t), open(t)
			wake, stop := there.Subscribe("scout")
			defer stop()
			here.Wake("scout")
			settle(t, here)
			settle(t, there)
			if len(wake) > 0 {
				t.Error("woken from another gateway")
			}
		})
	}
}

func TestWakeOfAClosedRelayReachesNobody(t *testing.T) {
	closed := shared(t)
	before, stop := closed.Subscribe("scout")
	closed.Close()
	stop()
	if len(before) > 0 {
		t.Error("the end put a token")
	}
	for name, r := range map[string]*relay.Relay{"that never started": nil, "that has ended": closed} {
		t.Run(name, func(t *testing.T) {
			wake, stop := r.Subscribe("scout")
			r.Wake("scout")
			stop()
			r.Close()
			select {
			case <-wake:
				t.Error("woken, or the channel is closed")
			default:
			}
			if err := r.Ready(); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("ready: got %v, want one line", err)
			}
		})
	}
}

func TestReadyWhileRunning(t *testing.T) {
	for name, open := range relays() {
		t.Run(name, func(t *testing.T) {
			if err := open(t).Ready(); err != nil {
				t.Error(err)
			}
		})
	}
}
