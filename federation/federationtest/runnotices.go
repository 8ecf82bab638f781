package federationtest

import (
	"testing"

	"baton/federation"
)

// RunNotices holds a record to what [federation.Notices] promises.
func RunNotices(t *testing.T, open func(t *testing.T) federation.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a notice comes back as it was, oldest first, on the link that its step came by", s.testUntold)
	t.Run("a signer is told each kind once of each step", s.testToldOnce)
	t.Run("a notice may wait until its signer is there", func(t *testing.T) {
		record := open(t)
		n := notice(2, Offer(1, ada, bob), federation.NoticeDelayed)
		notify(t, record, n)
		if err := record.TellLater(t.Context(), n, At(50)); err != nil {
			t.Fatalf("TellLater: %v", err)
		}
		for at, want := range map[int]int{49: 0, 50: 1} {
			if found, err := record.Untold(t.Context(), n.Event.Arrival.Link, At(at), 10); err != nil || len(found) != want {
				t.Errorf("Untold at %d = %+v, %v, want %d", at, found, err, want)
			}
		}
	})
	t.Run("old notices are forgotten, told or not", s.testPruneNotices)
}

// notice is the n-th notice about a step, filed at [At] n.
func notice(n int, ev federation.Event, kind federation.NoticeKind) federation.Notice {
	return federation.Notice{Kind: kind, Event: ev, To: "oftc", Code: "expired", Why: "nobody took it", At: At(n)}
}

func untold(t *testing.T, record federation.Record, link string, limit int) []federation.Notice {
	t.Helper()
	found, err := record.Untold(t.Context(), link, At(100), limit)
	if err != nil {
		t.Fatalf("Untold(%s): %v", link, err)
	}
	return found
}

func notify(t *testing.T, record federation.Record, all ...federation.Notice) {
	t.Helper()
	for _, n := range all {
		if err := record.Notify(t.Context(), n); err != nil {
			t.Fatalf("Notify: %v", err)
		}
	}
}

func (s suite) testUntold(t *testing.T) {
	record := s.open(t)
	here := Offer(1, ada, bob)
	there := Offer(2, bob, ada)
	there.Arrival.Link = "elsewhere"
	first, second := notice(3, here, federation.NoticeUndeliverable), notice(2, here, federation.NoticeDelayed)
	other := notice(4, there, federation.NoticeDelayed)
	notify(t, record, first, second, other)
	if d := diff([]federation.Notice{first, second}, untold(t, record, here.Arrival.Link, 10)); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
	if d := diff([]federation.Notice{first}, untold(t, record, here.Arrival.Link, 1)); d != "" {
		t.Errorf("the first notice (-want +got):\n%s", d)
	}
	if d := diff([]federation.Notice{other}, untold(t, record, "elsewhere", 10)); d != "" {
		t.Errorf("notices of the other link (-want +got):\n%s", d)
	}
}

func (s suite) testToldOnce(t *testing.T) {
	record := s.open(t)
	ev := Offer(1, ada, bob)
	delayed := notice(2, ev, federation.NoticeDelayed)
	notify(t, record, delayed, notice(3, ev, federation.NoticeDelayed))
	if d := diff([]federation.Notice{delayed}, untold(t, record, ev.Arrival.Link, 10)); d != "" {
		t.Errorf("notices before (-want +got):\n%s", d)
	}
	for range 2 {
		if err := record.Told(t.Context(), delayed); err != nil {
			t.Fatalf("Told: %v", err)
		}
		notify(t, record, notice(4, ev, federation.NoticeDelayed))
		if left := untold(t, record, ev.Arrival.Link, 10); len(left) != 0 {
			t.Errorf("notices after the signer was told: %+v", left)
		}
	}
	ended := notice(5, ev, federation.NoticeUndeliverable)
	notify(t, record, ended)
	if d := diff([]federation.Notice{ended}, untold(t, record, ev.Arrival.Link, 10)); d != "" {
		t.Errorf("notices of another kind (-want +got):\n%s", d)
	}
}

func (s suite) testPruneNotices(t *testing.T) {
	record := s.open(t)
	for n := 1; n <= 4; n++ {
		notify(t, record, notice(n, Offer(n, ada, bob), federation.NoticeDelayed))
	}
	if err := record.Told(t.Context(), notice(1, Offer(1, ada, bob), federation.NoticeDelayed)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 1, 0} {
		if n, err := record.PruneNotices(t.Context(), At(3), 2); err != nil || n != want {
			t.Errorf("PruneNotices = %d, %v, want %d", n, err, want)
		}
	}
	if left := untold(t, record, Offer(4, ada, bob).Arrival.Link, 10); len(left) != 1 || left[0].Event.ID != ID(4) {
		t.Errorf("left are %+v, want that of the fourth", left)
	}
}
