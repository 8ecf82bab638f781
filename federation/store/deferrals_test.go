package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func deferred(n int, origin string, ev federation.Event) federation.Deferred {
	return federation.Deferred{Event: ev, Origin: origin, Since: federationtest.At(n), Next: federationtest.At(n + 30), Reason: "directory away"}
}

func mustDefer(t *testing.T, record *registry.Record, d federation.Deferred) federation.Deferred {
	t.Helper()
	kept, err := record.Defer(t.Context(), d, federation.DeferralLimits{})
	if err != nil {
		t.Fatalf("Defer(%s): %v", d.Event.ID, err)
	}
	return kept
}

func deferredIn(t *testing.T, record *registry.Record, id federation.HandoffID) []federation.Deferred {
	t.Helper()
	waiting, err := record.DeferredIn(t.Context(), id)
	if err != nil {
		t.Fatalf("DeferredIn(%s): %v", id, err)
	}
	return waiting
}

func runDeferrals(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open: open}
	t.Run("what waits comes back as it was, in the order of arrival", s.testDeferredComeBack)
	t.Run("the same step waits once, under either signature", s.testSameStepWaitsOnce)
	t.Run("no more wait than may, of one origin and of all", s.testDeferralsAreBounded)
	t.Run("one user of a link fills a share of what may wait", s.testAUserHasAShareOfDeferrals)
	t.Run("what is due is told by handoff, longest due first", s.testDueDeferrals)
	t.Run("what was judged in vain is due later, and sooner when a key is there", s.testDeferAgain)
	t.Run("the evidence of what waits goes with it, unless its handoff is there", s.testEvidenceOfDeferred)
	t.Run("an event that waits is found by its id", s.testDeferredStep)
}

func (s suite) testDeferredComeBack(t *testing.T) {
	record, offer := s.open(t), federationtest.Offer(1, ada, bob)
	if waiting := deferredIn(t, record, offer.ID); len(waiting) > 0 {
		t.Errorf("%d steps wait in an empty record", len(waiting))
	}
	first := mustDefer(t, record, deferred(1, "oftc", offer))
	second := mustDefer(t, record, deferred(2, "lab", federationtest.Step(2, offer, federation.Accept, bob)))
	mustDefer(t, record, deferred(3, "lab", federationtest.Offer(3, cleo, bob)))
	if first.Row == 0 || second.Row <= first.Row {
		t.Errorf("rows %d and %d, want them to grow", first.Row, second.Row)
	}
	want := []federation.Deferred{deferred(1, "oftc", offer), deferred(2, "lab", federationtest.Step(2, offer, federation.Accept, bob))}
	want[0].Row, want[1].Row = first.Row, second.Row
	if d := diff(want, deferredIn(t, record, offer.ID)); d != "" {
		t.Errorf("DeferredIn (-want +got):\n%s", d)
	}
	for range 2 {
		if err := record.EndDeferral(t.Context(), first.Row); err != nil {
			t.Errorf("EndDeferral: %v", err)
		}
	}
	if d := diff(want[1:], deferredIn(t, record, offer.ID)); d != "" {
		t.Errorf("DeferredIn after the first ended (-want +got):\n%s", d)
	}
	counts, err := record.CountDeferred(t.Context())
	if d := diff(map[string]int{"spanningtree": 2}, counts); d != "" || err != nil {
		t.Errorf("CountDeferred (%v, -want +got):\n%s", err, d)
	}
}

func (s suite) testSameStepWaitsOnce(t *testing.T) {
	record := s.open(t)
	first := mustDefer(t, record, deferred(1, "oftc", federationtest.Offer(1, ada, bob)))
	again := deferred(9, "lab", federationtest.Offer(1, ada, bob))
	again.Event.ID = federationtest.ID(9)
	if d := diff(first, mustDefer(t, record, again)); d != "" {
		t.Errorf("the same step (-first +second):\n%s", d)
	}
	forged := deferred(9, "lab", federationtest.Offer(1, ada, bob))
	forged.Event.Signature.Text = "another"
	if kept := mustDefer(t, record, forged); kept.Row == first.Row {
		t.Error("a step with another signature is taken for the first")
	}
}

func (s suite) testDeferralsAreBounded(t *testing.T) {
	record, limits := s.open(t), federation.DeferralLimits{PerOrigin: 2, Total: 3}
	for _, step := range []struct {
		n      int
		origin string
		full   bool
	}{{1, "oftc", false}, {2, "oftc", false}, {3, "oftc", true}, {2, "oftc", false}, {4, "lab", false}, {5, "lab", true}, {6, "freeq", true}} {
		_, err := record.Defer(t.Context(), deferred(step.n, step.origin, federationtest.Offer(step.n, ada, bob)), limits)
		if errors.Is(err, federation.ErrDeferralFull) != step.full || err != nil && !step.full {
			t.Errorf("step %d from %s: %v, want no room: %v", step.n, step.origin, err, step.full)
		}
	}
	if waiting := deferredIn(t, record, federationtest.ID(3)); len(waiting) != 0 {
		t.Errorf("%d wait for which there was no room", len(waiting))
	}
}

func (s suite) testAUserHasAShareOfDeferrals(t *testing.T) {
	record, limits := s.open(t), federation.DeferralLimits{PerUser: 2, PerOrigin: 10}
	for _, step := range []struct {
		n            int
		origin, name string
		full         bool
	}{
		{1, "oftc", "mallory", false},
		{2, "oftc", "mallory", false},
		{3, "oftc", "mallory", true},
		{1, "oftc", "mallory", false},
		{4, "oftc", "ada", false},
		{5, "lab", "mallory", false},
		{6, "oftc", "", false},
		{7, "oftc", "", false},
		{8, "oftc", "", false},
	} {
		d := deferred(step.n, step.origin, federationtest.Offer(step.n, ada, bob))
		d.Event.Arrival.Name = step.name
		_, err := record.Defer(t.Context(), d, limits)
		if errors.Is(err, federation.ErrDeferralFull) != step.full || err != nil && !step.full {
			t.Errorf("step %d of %q from %s: %v, want no room: %v", step.n, step.name, step.origin, err, step.full)
		}
	}
}

func (s suite) testDueDeferrals(t *testing.T) {
	record, offer := s.open(t), federationtest.Offer(1, ada, bob)
	mustDefer(t, record, deferred(5, "oftc", offer))
	mustDefer(t, record, deferred(6, "oftc", federationtest.Step(6, offer, federation.Accept, bob)))
	mustDefer(t, record, deferred(3, "oftc", federationtest.Offer(3, ada, bob)))
	for _, tt := range []struct {
		at, limit int
		want      []federation.HandoffID
	}{
		{32, 10, nil},
		{33, 10, []federation.HandoffID{federationtest.ID(3)}},
		{40, 10, []federation.HandoffID{federationtest.ID(3), federationtest.ID(1)}},
		{40, 1, []federation.HandoffID{federationtest.ID(3)}},
		{40, 0, nil},
		{40, -1, nil},
	} {
		due, err := record.DeferredDue(t.Context(), federationtest.At(tt.at), tt.limit)
		if d := diff(tt.want, due); d != "" || err != nil {
			t.Errorf("DeferredDue(%d, %d): %v (-want +got):\n%s", tt.at, tt.limit, err, d)
		}
	}
}

func (s suite) testDeferAgain(t *testing.T) {
	record := s.open(t)
	want := mustDefer(t, record, deferred(1, "oftc", federationtest.Offer(1, ada, bob)))
	other := mustDefer(t, record, deferred(2, "oftc", federationtest.Offer(2, bob, ada)))
	if err := errors.Join(record.DeferAgain(t.Context(), want.Row, federationtest.At(90), "still away"), record.DeferAgain(t.Context(), 999, federationtest.At(90), "")); err != nil {
		t.Fatalf("DeferAgain: %v", err)
	}
	want.Tried, want.Next, want.Reason = 1, federationtest.At(90), "still away"
	if d := diff([]federation.Deferred{want}, deferredIn(t, record, federationtest.ID(1))); d != "" {
		t.Errorf("after a vain attempt (-want +got):\n%s", d)
	}
	for _, at := range []int{40, 60} { // the second time it is due already
		if err := record.HastenDeferred(t.Context(), ada, federationtest.At(at)); err != nil {
			t.Fatalf("HastenDeferred: %v", err)
		}
	}
	want.Next = federationtest.At(40)
	if d := diff([]federation.Deferred{want}, deferredIn(t, record, federationtest.ID(1))); d != "" {
		t.Errorf("with a key (-want +got):\n%s", d)
	}
	if d := diff([]federation.Deferred{other}, deferredIn(t, record, federationtest.ID(2))); d != "" {
		t.Errorf("that of another signer (-want +got):\n%s", d)
	}
}

func (s suite) testEvidenceOfDeferred(t *testing.T) {
	record, offer := s.open(t), federationtest.Offer(1, ada, bob)
	lost := mustDefer(t, record, deferred(2, "airc", federationtest.Vouch(federationtest.Step(2, offer, federation.Accept, bob), "lost")))
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}))
	filed := mustDefer(t, record, deferred(4, "airc", federationtest.Vouch(federationtest.Step(4, federationtest.Offer(3, ada, bob), federation.Accept, bob), "filed")))
	if lost.Event.Evidence.Bytes != nil {
		t.Error("the evidence is returned with what waits")
	}
	evidence := func(d federation.Deferred) error {
		_, err := record.Evidence(t.Context(), d.Event.Evidence.Digest)
		return err
	}
	if err := errors.Join(evidence(lost), evidence(filed)); err != nil {
		t.Errorf("evidence of what waits: %v", err)
	}
	if err := errors.Join(record.EndDeferral(t.Context(), lost.Row), record.EndDeferral(t.Context(), filed.Row)); err != nil {
		t.Fatalf("EndDeferral: %v", err)
	}
	if err := evidence(lost); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("evidence of a handoff that never was: %v", err)
	}
	if err := evidence(filed); err != nil {
		t.Errorf("evidence of a handoff on file: %v", err)
	}
}

func (s suite) testDeferredStep(t *testing.T) {
	record := s.open(t)
	want := mustDefer(t, record, deferred(1, "oftc", federationtest.Offer(1, ada, bob)))
	got, err := record.DeferredStep(t.Context(), federationtest.ID(1))
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("DeferredStep: %v (-want +got):\n%s", err, d)
	}
	if _, err := record.DeferredStep(t.Context(), federationtest.ID(2)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("an id of nothing: %v", err)
	}
}
