package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

const cleo = federation.DID("did:plc:cleo00000000000000000000")

// receiver accepts posts at a limited rate, or slowly.
type receiver struct {
	each  time.Duration                   // interval between two accepted posts
	early func() (identity.Answer, error) // answer to an early post
	takes time.Duration                   // duration of a call

	mu   sync.Mutex
	next time.Time
	took int
}

func (r *receiver) answer(ctx context.Context, _ string) (identity.Answer, error) {
	select {
	case <-ctx.Done():
		return identity.Answer{}, ctx.Err()
	case <-time.After(r.takes):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Before(r.next) {
		return r.early()
	}
	r.next = time.Now().Add(r.each)
	r.took++
	return identity.Answer{Status: http.StatusOK}, nil
}

func (r *receiver) all() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.took
}

// receivers are receivers that accept one post at a time.
func receivers() map[string]func() *receiver {
	return map[string]func() *receiver{
		"rate of the host": func() *receiver {
			return &receiver{each: 10 * time.Second, early: func() (identity.Answer, error) { return identity.Answer{}, identity.ErrTurn }}
		},
		"429 and a time": func() *receiver {
			return &receiver{each: 10 * time.Second, early: func() (identity.Answer, error) {
				return identity.Answer{Status: http.StatusTooManyRequests, RetryAfter: 10 * time.Second}, nil
			}}
		},
		"503 and a time": func() *receiver {
			return &receiver{each: 10 * time.Second, early: func() (identity.Answer, error) {
				return identity.Answer{Status: http.StatusServiceUnavailable, RetryAfter: 10 * time.Second}, nil
			}}
		},
		"429 only": func() *receiver {
			return &receiver{each: time.Minute, early: func() (identity.Answer, error) {
				return identity.Answer{Status: http.StatusTooManyRequests}, nil
			}}
		},
		"slow": func() *receiver { return &receiver{takes: 4 * time.Second} },
	}
}

// offers files offers by one sender to bob, and returns them.
func (w *world) offers(t *testing.T, from federation.DID, n int) (made []federation.Filing) {
	t.Helper()
	for range n {
		w.steps++
		f := federationtest.File(federationtest.Offer(w.steps, from, bob), federation.View{})
		w.file(t, f)
		made = append(made, f)
	}
	return made
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 24 * 3600 {
		if holds() {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%s: not within a day", what)
}

// delivered returns the steps that a hook accepted, in the order of completion.
func (w *world) delivered(t *testing.T, h federation.Webhook) (refs []string) {
	t.Helper()
	all := slices.DeleteFunc(w.pushes(t, h), func(p federation.Push) bool { return p.State != federation.DeliveryDelivered })
	slices.SortStableFunc(all, func(a, b federation.Push) int { return a.Ended.Compare(b.Ended) })
	for _, p := range all {
		refs = append(refs, p.Ref())
	}
	return refs
}

func TestTurnsShareAPacedWebhook(t *testing.T) {
	for name, receiver := range receivers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := receiver()
				w, hook := withHook(t, r.answer)
				w.offers(t, ada, 30)
				defer w.run(t)()
				until(t, "the first posts", func() bool { return r.all() == 2 })
				one := w.offers(t, cleo, 1)[0].Event.ID.String()
				before := r.all()
				until(t, "the offer of the other sender", func() bool { return slices.Contains(w.delivered(t, hook.Webhook), one) })
				if place := slices.Index(w.delivered(t, hook.Webhook), one) - before; place > 2 {
					t.Errorf("the offer of the other sender comes after %d others", place)
				}
				until(t, "all posts", func() bool { return w.waiting(t, bob) == 0 })
			})
		})
	}
}

func TestTurnsAlternateAtAPacedWebhook(t *testing.T) {
	for _, name := range []string{"rate of the host", "slow"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := receivers()[name]()
				w, hook := withHook(t, r.answer)
				ofAda := w.offers(t, ada, 3)
				cancel := federationtest.File(federationtest.Step(900, ofAda[0].Event, federation.Cancel, ada), ofAda[0].View)
				w.file(t, cancel)
				ofCleo := w.offers(t, cleo, 4)
				defer w.run(t)()
				until(t, "all posts", func() bool { return w.waiting(t, bob) == 0 })
				var want []string
				for i, f := range []federation.Filing{ofAda[0], ofAda[1], ofAda[2], cancel} {
					want = append(want, f.Event.ID.String(), ofCleo[i].Event.ID.String())
				}
				if d := cmp.Diff(want, w.delivered(t, hook.Webhook)); d != "" {
					t.Errorf("posted (-want +got):\n%s", d)
				}
			})
		})
	}
}

// A postponed step is due together with the steps before it.
func TestTurnsKeepTheOrderOfAHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{takes: time.Second}
		w, hook := withHook(t, r.answer)
		offer := w.offers(t, ada, 1)[0]
		behind := federationtest.File(federationtest.Step(901, offer.Event, federation.Cancel, cleo), offer.View)
		w.file(t, behind)
		w.offers(t, ada, 2)
		if _, err := w.record.PushAgain(t.Context(), hook.ID, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		defer w.run(t)()
		until(t, "all posts", func() bool { return w.waiting(t, bob) == 0 })
		got := w.delivered(t, hook.Webhook)
		if first, second := slices.Index(got, offer.Event.ID.String()), slices.Index(got, behind.Event.ID.String()); first < 0 || second < first {
			t.Errorf("posted in the order %v, want %s before %s", got, offer.Event.ID, behind.Event.ID)
		}
	})
}

func TestTurnsSurviveARestart(t *testing.T) {
	for _, name := range []string{"rate of the host", "429 and a time"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, dir := receivers()[name](), storetest.TempDir(t)
				open := func() *world { return newWorld(storetest.OpenIn(t, dir), r.answer) }
				w := open()
				hook := w.register(t, bob, "https://bob.example/hook")
				w.offers(t, ada, 30)
				stop := w.run(t)
				until(t, "the first post", func() bool { return r.all() == 1 })
				one := w.offers(t, cleo, 1)[0].Event.ID.String()
				stop()
				if err := w.record.Close(); err != nil {
					t.Fatal(err)
				}
				w = open()
				stop = w.run(t)
				until(t, "more posts", func() bool { return r.all() >= 4 })
				stop()
				if got := w.delivered(t, hook.Webhook); !slices.Contains(got, one) {
					t.Errorf("the offer of the other sender is not among %v", got)
				}
				if err := w.record.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A host without capacity is called once a second, regardless of the queue.
func TestTurnsAskABusyHostOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := withHook(t, func(context.Context, string) (identity.Answer, error) { return identity.Answer{}, identity.ErrTurn })
		w.offers(t, ada, 30)
		defer w.run(t)()
		time.Sleep(10 * time.Second)
		if n := len(w.outside.got()); n < 9 || n > 11 {
			t.Errorf("asked %d times in ten seconds", n)
		}
	})
}

func refsOf(t *testing.T, calls []call) (refs []string) {
	t.Helper()
	for _, c := range calls {
		var body struct{ Data struct{ Ref string } }
		if err := json.Unmarshal(c.body, &body); err != nil {
			t.Fatal(fmt.Errorf("body %s: %w", c.body, err))
		}
		refs = append(refs, body.Data.Ref)
	}
	return refs
}

// After an early post the sender keeps its turn.
func TestTurnsIgnoreAPostThatWasTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := false
		w, _ := withHook(t, func(context.Context, string) (identity.Answer, error) {
			if turn = !turn; turn {
				return identity.Answer{Status: http.StatusOK}, nil
			}
			return identity.Answer{}, identity.ErrTurn
		})
		ofAda, ofCleo := w.offers(t, ada, 2), w.offers(t, cleo, 1)
		defer w.run(t)()
		until(t, "all posts", func() bool { return w.waiting(t, bob) == 0 })
		a, b, c := ofAda[0].Event.ID.String(), ofCleo[0].Event.ID.String(), ofAda[1].Event.ID.String()
		if d := cmp.Diff([]string{a, b, b, c, c}, refsOf(t, w.outside.got())); d != "" {
			t.Errorf("asked (-want +got):\n%s", d)
		}
	})
}
