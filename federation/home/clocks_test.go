package home_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/home"
	"baton/federation/store/storetest"
)

// restarted returns the bench after its record was closed and opened again.
func (b bench) restarted() bench {
	b.t.Helper()
	if err := b.record.Close(); err != nil {
		b.t.Fatal(err)
	}
	record := storetest.OpenIn(b.t, b.dir)
	again := *b.home
	again.Snapshots, again.Log, again.Overdue = record, record, record
	b.home, b.record = &again, record
	return b
}

// sweep lets the home end what is due and returns how much that was.
func (b bench) sweep(now time.Time) int {
	b.t.Helper()
	filed, err := b.home.Sweep(b.t.Context(), now)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(filed)
}

func TestAbandonedWorkExpiresOnce(t *testing.T) {
	for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		b := newBench(t)
		b.file(b.step(1, b.alice, federation.Offer, in(d), due(federationtest.At(300))), b.step(2, b.bob, federation.Accept, in(d)))
		silent := b.now.Add(b.home.Limits.Abandoned)
		if n := b.sweep(silent.Add(-time.Second)); n != 0 {
			t.Errorf("%s: %d expired a second early", d, n)
		}
		b.now = federationtest.At(60)
		b.file(b.step(60, b.bob, federation.Progress, in(d))) // a sign of life
		silent = b.now.Add(b.home.Limits.Abandoned)
		if n := b.sweep(silent.Add(-time.Second)); n != 0 {
			t.Errorf("%s: %d expired a second early, after progress", d, n)
		}
		b = b.restarted()
		if n := b.sweep(silent); n != 1 {
			t.Errorf("%s: %d expired, want the one", d, n)
		}
		b = b.restarted()
		if n := b.sweep(silent.Add(time.Hour)); n != 0 {
			t.Errorf("%s: %d expired again after a restart", d, n)
		}
		if view := b.view(1); view.State != federation.Expired || view.Version != 4 {
			t.Errorf("%s: view %+v", d, view)
		}
		for _, did := range []federation.DID{b.alice.did, b.bob.did} {
			inbox, err := b.record.Replay(t.Context(), did, "", 10)
			if err != nil || inbox[len(inbox)-1].Event.Verb != federation.Expire {
				t.Errorf("%s: %s was not told (%v)", d, did, err)
			}
		}
	}
}

func TestABountysClocks(t *testing.T) {
	b := newBench(t)
	b.file(
		b.step(1, b.alice, federation.Offer, ofBounty), b.step(2, b.bob, "bid", ofBounty),
		b.step(3, b.alice, "award", ofBounty, accepting(2)), b.step(4, b.bob, "submit", ofBounty),
		b.step(11, b.alice, federation.Offer, ofBounty, due(federationtest.At(100))), // no award comes in time
	)
	const review = 336 * time.Hour
	for _, pass := range []struct {
		at   time.Time
		want int
	}{{federationtest.At(219), 0}, {federationtest.At(220), 1}, {b.now.Add(review - time.Second), 0}, {b.now.Add(review), 1}, {b.now.Add(2 * review), 0}} {
		if n := b.sweep(pass.at); n != pass.want {
			t.Errorf("at %s: %d ended, want %d", pass.at, n, pass.want)
		}
	}
	if view := b.view(1); view.State != "accepted" || view.Assignee != b.bob.did {
		t.Errorf("whose work nobody looked at: %+v", view)
	}
	if view := b.view(11); view.State != federation.Expired {
		t.Errorf("which nobody awarded: %+v", view)
	}
}

func TestForEverIsForEver(t *testing.T) {
	b := newBench(t)
	b.home.Limits.Unanswered, b.home.Limits.Abandoned = 0, 0
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.alice, federation.Offer), b.step(3, b.bob, federation.Accept, of(2)))
	if n := b.sweep(b.now.AddDate(50, 0, 0)); n != 0 {
		t.Errorf("%d expired", n)
	}
}

// late is a record in which each handoff moves after the sweep has read that it is due, and
// before the home files its end.
type late struct {
	home.Overdue

	move func()
}

func (l late) Due(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error) {
	views, err := l.Overdue.Due(ctx, clock, since, limit)
	if len(views) > 0 {
		l.move()
	}
	return views, err
}

func TestASignOfLifeBeatsTheSweepThatDidNotSeeIt(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept))
	silent := b.now.Add(b.home.Limits.Abandoned)
	b.home.Overdue = late{b.record, func() {
		b.now, b.home.Limits.ClockSkew = silent, 0
		b.file(b.step(3, b.bob, federation.Progress))
	}}
	if n := b.sweep(silent); n != 0 {
		t.Errorf("%d expired, of somebody who just spoke", n)
	}
	if view := b.view(1); view.State != federation.Assigned {
		t.Errorf("view %+v", view)
	}
}

// race runs two at once, and returns what each came to.
func race(one, other func() error) (first, second error) {
	var both sync.WaitGroup
	start := make(chan struct{})
	both.Go(func() { <-start; first = one() })
	both.Go(func() { <-start; second = other() })
	close(start)
	both.Wait()
	return first, second
}

func TestOfTwoThatRaceOneWinsAndStays(t *testing.T) {
	for name, rival := range map[string]func(bench) error{
		"expiry": func(b bench) error {
			filed, err := b.home.Sweep(b.t.Context(), federationtest.At(220))
			if err == nil && len(filed) == 0 {
				return federation.Refuse(federation.Event{}, federation.TerminalHandoff, "")
			}
			return err
		},
		"cancel": func(b bench) error {
			_, err := b.home.Submit(b.t.Context(), b.step(3, b.alice, federation.Cancel), federationtest.At(220))
			return err
		},
	} {
		t.Run("an accept and the "+name, func(t *testing.T) {
			for range 5 {
				raceAccept(t, rival)
			}
		})
	}
}

// raceAccept lets an accept race something else, over a record on disk. One of them
// wins, and has won after a restart as well.
func raceAccept(t *testing.T, rival func(bench) error) {
	t.Helper()
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer, due(federationtest.At(100))))
	accept := b.step(2, b.bob, federation.Accept)
	accepting := func() error {
		_, err := b.home.Submit(t.Context(), accept, federationtest.At(100))
		return err
	}
	accepted, ended := race(accepting, func() error { return rival(b) })
	if (accepted == nil) == (ended == nil) {
		t.Fatalf("accept: %v; the other: %v; want one of them", accepted, ended)
	}
	for _, err := range []error{accepted, ended} {
		if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && !refused {
			t.Errorf("the loser was told %v", err)
		}
	}
	before := b.view(1)
	if won := before.State == federation.Assigned; won != (accepted == nil) || before.Version != 2 {
		t.Errorf("view %+v, accept %v", before, accepted)
	}
	if after := b.restarted().view(1); after.State != before.State {
		t.Errorf("%s before the restart, %s after", before.State, after.State)
	}
}
