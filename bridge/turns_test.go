package bridge_test

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// paced is a link whose peer accepts six deliveries a minute, or any number until it refuses one
// for its rate.
type paced struct {
	*link
	perMinute int
}

// PerMinute implements [bridge.Paced].
func (p paced) PerMinute() int { return p.perMinute }

// offers files offers by one sender for the link, and returns their IDs.
func (h *house) offers(t *testing.T, from string, first, n int) []federation.EventID {
	t.Helper()
	var ids []federation.EventID
	for i := range n {
		ev := federationtest.Offer(first+i, federationtest.Person(from), federationtest.Person("bob"))
		f := federationtest.File(ev, federation.View{})
		f.Links = []string{"lab"}
		if _, err := h.record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ev.ID)
	}
	return ids
}

func TestTurnsReachSendersBehindALongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error { return nil }})
		h.supervisor = bridge.NewSupervisor(paced{h.link, 6}, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.DiscardHandler))
		h.offers(t, "ann", 1, 1100)
		late := h.offers(t, "bob", 5000, 1)[0]
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		if first := h.link.delivered(); len(first) != 6 || !slices.ContainsFunc(first, func(d got) bool { return d.Event == late }) {
			t.Errorf("first are %v, want the offer %s among 6", first, late)
		}
	})
}

func TestTurnsAlternateSendersAtAPacedLink(t *testing.T) {
	for name, perMinute := range map[string]int{"named rate": 6, "learned rate": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refuse := perMinute == 0
				h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error {
					if refuse {
						refuse = false
						return &federation.UnavailableError{What: "peer", RetryAfter: time.Second}
					}
					return nil
				}})
				h.supervisor = bridge.NewSupervisor(paced{h.link, perMinute}, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.DiscardHandler))
				if refuse {
					h.offers(t, "eve", 900, 1)
				}
				stop := h.start(t)
				defer stop()
				synctest.Wait()
				ann := h.offers(t, "ann", 1, 30)
				h.wakes.Wake()
				synctest.Wait()
				begun := len(h.link.delivered())
				late := []federation.EventID{h.offers(t, "bob", 100, 1)[0], h.offers(t, "fay", 200, 1)[0]}
				h.wakes.Wake()
				for len(h.link.delivered()) < begun+4 {
					time.Sleep(time.Second)
					synctest.Wait()
				}
				var next, other []federation.EventID
				for _, each := range h.link.delivered()[begun:][:4] {
					next = append(next, each.Event)
				}
				for _, id := range late {
					if !slices.Contains(next, id) {
						t.Errorf("%s waits behind %v", id, next)
					}
				}
				for len(h.link.delivered()) < 32 {
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				for _, each := range h.link.delivered()[begun:] { // the earlier ones went out together
					if slices.Contains(ann, each.Event) {
						other = append(other, each.Event)
					}
				}
				if want := ann[len(ann)-len(other):]; !slices.Equal(other, want) {
					t.Errorf("the offers of one sender arrive as %v, want %v", other, want)
				}
			})
		})
	}
}

// The steps of one handoff, and the messages of one conversation, form one lane, which makes one
// delivery per turn.
func TestTurnsMakeOneDeliveryPerLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error { return nil }})
		h.supervisor = bridge.NewSupervisor(paced{h.link, 1}, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.DiscardHandler))
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		h.offers(t, "eve", 900, 1) // uses up the burst
		h.wakes.Wake()
		synctest.Wait()
		offer := federationtest.Offer(1, federationtest.Person("ann"), federationtest.Person("bob"))
		var before federation.View
		var want []federation.EventID
		for n, verb := range []federation.Verb{federation.Offer, federation.Accept, federation.Complete} {
			ev := offer
			if n > 0 {
				ev = federationtest.Step(1+n, offer, verb, federationtest.Person("bob"))
			}
			f := federationtest.File(ev, before)
			f.Links = []string{"lab"}
			if _, err := h.record.Append(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			before = f.View
			want = append(want, ev.ID)
		}
		want = slices.Insert(want, 1, h.offers(t, "dora", 50, 1)[0])
		h.wakes.Wake()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var got []federation.EventID
		for _, each := range h.link.delivered()[1:] {
			got = append(got, each.Event)
		}
		if !slices.Equal(got, want) {
			t.Errorf("delivered are %v, want %v", got, want)
		}
	})
}
