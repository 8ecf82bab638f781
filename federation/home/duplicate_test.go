package home_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
)

// interrupted is a record in which something happens before it is asked so many times for
// a snapshot, or to file a step.
type interrupted struct {
	home.Record

	left *int
	by   func()
}

func (i interrupted) asked() {
	if *i.left--; *i.left == 0 {
		i.by()
	}
}

func (i interrupted) Snapshot(ctx context.Context, q federation.SnapshotQuery) (federation.Snapshot, error) {
	i.asked()
	return i.Record.Snapshot(ctx, q)
}

func (i interrupted) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	i.asked()
	return i.Record.Append(ctx, f)
}

// interrupt has something happen before the home of a bench asks its record the nth time.
func (b bench) interrupt(n int, by func()) {
	record := interrupted{b.record, &n, by}
	b.home.Record = record
}

// lookups is more often than the record is asked about one step.
const lookups = 4

func TestSubmitAcceptsConcurrentDuplicates(t *testing.T) {
	for _, verb := range []federation.Verb{federation.Offer, federation.Accept, federation.Complete} {
		for n := range lookups {
			t.Run(fmt.Sprintf("%s before %d", verb, n+1), func(t *testing.T) {
				b := newBench(t)
				steps := []federation.Event{b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept), b.step(3, b.bob, federation.Complete)}
				for steps[0].Verb != verb {
					b.file(steps[0])
					steps = steps[1:]
				}
				other, filed := *b.home, 0
				submit := func(to *home.Home, at time.Time) {
					judged, err := to.Submit(t.Context(), steps[0], at)
					if err != nil || judged.Entry.Event.ID != steps[0].ID {
						t.Errorf("%+v, %v", judged, err)
					}
					if !judged.Duplicate {
						filed++
					}
				}
				b.interrupt(n+1, func() { submit(&other, b.now.Add(time.Millisecond)) })
				submit(b.home, b.now)
				if filed != 1 {
					t.Errorf("it is filed %d times", filed)
				}
			})
		}
	}
}

func TestRetryAcceptsAStepFiledMeanwhile(t *testing.T) {
	for n := range lookups {
		t.Run(fmt.Sprintf("before %d", n+1), func(t *testing.T) {
			b, server, offer := visited(t)
			accept := b.step(2, b.bob, federation.Accept, in(federation.ActTags))
			b.file(accept)
			other := *b.home
			b.interrupt(n+1, func() {
				if _, err := other.Submit(t.Context(), b.receipt(3, server, accept), b.now); err != nil {
					t.Error(err)
				}
			})
			if rulings, err := b.home.Settle(t.Context(), offer.ID, b.now); err != nil || len(rulings) > 0 {
				t.Errorf("settled %+v, %v", rulings, err)
			}
		})
	}
}
