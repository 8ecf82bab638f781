package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// racers is the number of goroutines that race for one handoff.
const racers = 64

func runStore(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a handoff without a log has the zero view", func(t *testing.T) {
		record := open(t)
		view, err := record.View(t.Context(), federationtest.ID(1))
		if err != nil || view.Exists() {
			t.Errorf("View = %+v, %v, want the zero View", view, err)
		}
		if steps := log(t, record, federationtest.ID(1)); len(steps) != 0 {
			t.Errorf("Log yields %d steps, want none", len(steps))
		}
	})
	t.Run("filed steps are in the log, and the view is that after the last", s.testLog)
	t.Run("what was signed is kept verbatim", s.testVerbatim)
	t.Run("a long log is read whole, as far as it is asked for, and with other reads in between", s.testLongLog)
	t.Run("a step judged against an old view is stale and leaves nothing", s.testStale)
	t.Run("the same step again is answered with its first entry", s.testRepeat)
	t.Run("an id is used once by each signer", s.testIDs)
	t.Run("a known step is found by its id, else by its bytes", s.testKnown)
	t.Run("a handoff is found by the ids of its steps and messages", s.testReference)
	t.Run("evidence is kept beside the step that names it", s.testEvidence)
	t.Run("evidence is kept without a step too", s.testKeep)
	t.Run("a receipt is delivered like its step, and in no log", s.testReceipt)
	t.Run("what waits is due by its clock, the longest overdue first", s.testDue)
	t.Run("a step is found in the log of its handoff alone", s.testStep)
	t.Run("what a DID offered is counted until it is over", s.testOpen)
	t.Run("of many accepts at once one is filed", s.testRace)
	t.Run("one step many times at once is filed once", s.testRepeatRace)
}

func (s suite) testLog(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	offer.View.Link, offer.View.Signed = "oftc", federation.PrivateVenue(ada, bob)
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	other := federationtest.File(federationtest.Offer(3, ada, cleo), federation.View{})
	var want []federation.Entry
	for _, f := range []federation.Filing{offer, other, accept} {
		entry := mustAppend(t, record, f)
		expected := federation.Entry{Event: f.Event, Version: f.View.Version, State: f.View.State, Filed: f.Filed}
		if d := diff(expected, entry); d != "" {
			t.Errorf("Append answers (-want +got):\n%s", d)
		}
		if f.View.ID == offer.View.ID {
			want = append(want, expected)
		}
	}
	if d := diff(want, log(t, record, offer.View.ID)); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	view, err := record.View(t.Context(), offer.View.ID)
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	if d := diff(accept.View, view); d != "" {
		t.Errorf("view (-want +got):\n%s", d)
	}
}

func (s suite) testVerbatim(t *testing.T) {
	record := s.open(t)
	ev := federationtest.Offer(1, ada, bob)
	odd := "<a> & \"b\" \\ \u2028 \ufffd \x7f\x01\n Zürich 👋 e\u0301"
	ev.Title, ev.Context, ev.Note = odd, `{"b":1, "a":1.0}`, ""
	ev.Fields["unknown/"+odd] = odd
	ev.Arrival.Place = federation.ChannelRef{Link: "oftc", Venue: "#ops"}
	ev.Signature.Document = federationtest.Document(ev.Fields)
	mustAppend(t, record, federationtest.File(ev, federation.View{}))
	steps := log(t, record, ev.Handoff)
	if len(steps) != 1 {
		t.Fatalf("Log yields %d steps, want 1", len(steps))
	}
	if d := diff(ev, steps[0].Event); d != "" {
		t.Errorf("event (-want +got):\n%s", d)
	}
}

func (s suite) testLongLog(t *testing.T) {
	record := s.open(t)
	const length, readers = 150, 8
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	view := offer.View
	for n := 2; n <= length; n++ {
		f := federationtest.File(federationtest.Step(n, offer.Event, federation.Progress, bob), view)
		mustAppend(t, record, f)
		view = f.View
	}
	for i, entry := range log(t, record, view.ID) {
		if want := federation.Version(i + 1); entry.Version != want {
			t.Fatalf("step %d has version %d", want, entry.Version)
		}
	}
	if n := len(log(t, record, view.ID)); n != length {
		t.Errorf("Log yields %d steps, want %d", n, length)
	}
	for _, after := range []federation.Version{1, length - 1, length, length + 1} {
		next := after + 1
		for entry, err := range record.Log(t.Context(), view.ID, after) {
			if err != nil || entry.Version != next {
				t.Fatalf("Log after version %d yields version %d, %v, want %d", after, entry.Version, err, next)
			}
			next++
		}
		if last := max(after, length); next != last+1 {
			t.Errorf("Log after version %d ends before version %d, want %d", after, next, last+1)
		}
	}
	for entry, err := range record.Log(t.Context(), view.ID, math.MaxUint64) { // another home may ask for anything
		t.Errorf("Log after all versions yields version %d, %v", entry.Version, err)
	}
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for entry, err := range record.Log(t.Context(), view.ID, 0) {
				if err != nil || entry.Version > 3 {
					break
				}
				if _, err := record.View(t.Context(), view.ID); err != nil {
					t.Errorf("View within Log: %v", err)
				}
			}
		})
	}
	all.Wait()
}

func (s suite) testStale(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	mustAppend(t, record, accept)

	late := federationtest.File(federationtest.Vouch(federationtest.Step(3, offer.Event, federation.Cancel, ada), "original"), offer.View)
	late.Links = []string{"oftc"}
	if _, err := record.Append(t.Context(), late); !errors.Is(err, federation.ErrStale) {
		t.Errorf("Append: %v, want ErrStale", err)
	}
	early := federationtest.File(federationtest.Step(4, federationtest.Offer(5, ada, bob), federation.Accept, bob), federation.View{Version: 1})
	early.View.ID = federationtest.ID(5)
	if _, err := record.Append(t.Context(), early); !errors.Is(err, federation.ErrStale) {
		t.Errorf("Append to no log: %v, want ErrStale", err)
	}

	if n := len(log(t, record, offer.View.ID)); n != 2 {
		t.Errorf("Log yields %d steps, want 2", n)
	}
	if _, err := record.Known(t.Context(), ada, federationtest.ID(3), late.Event.Digest()); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Known: %v, want ErrNotFound", err)
	}
	if _, err := record.Evidence(t.Context(), late.Event.Evidence.Digest); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Evidence: %v, want ErrNotFound", err)
	}
	if entries, err := record.Replay(t.Context(), bob, "", 10); err != nil || len(entries) != 1 {
		t.Errorf("the inbox has %d entries, %v, want the offer alone", len(entries), err)
	}
	if outboxOf, err := record.Outbox(t.Context(), "oftc", federation.Delivery{}, 10); err != nil || len(outboxOf) != 0 {
		t.Errorf("the outbox has %d rows, %v, want none", len(outboxOf), err)
	}
}

func (s suite) testRepeat(t *testing.T) {
	record := s.open(t)
	unstamped := federationtest.Offer(1, ada, bob)
	unstamped.Stamped = false
	offer := federationtest.File(unstamped, federation.View{})
	first := mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View))

	again := offer
	again.Event.Arrival = federation.Arrival{Network: "airc", Link: "airc", MessageID: "another", Received: federationtest.At(9)}
	minted := again
	minted.Event.ID, minted.Event.Handoff = federationtest.ID(7), federationtest.ID(7)
	minted.View.ID = federationtest.ID(7)
	for name, f := range map[string]federation.Filing{"by another way": again, "with an id minted anew": minted} {
		entry, err := record.Append(t.Context(), f)
		if err != nil {
			t.Errorf("Append %s: %v", name, err)
		}
		if d := diff(first, entry); d != "" {
			t.Errorf("Append %s (-first +again):\n%s", name, d)
		}
	}
	if view, err := record.View(t.Context(), federationtest.ID(7)); err != nil || view.Exists() {
		t.Errorf("View of the id minted anew = %+v, %v, want none", view, err)
	}
	if entries, err := record.Replay(t.Context(), bob, "", 10); err != nil || len(entries) != 1 {
		t.Errorf("the inbox has %d entries, %v, want 1", len(entries), err)
	}
}

func (s suite) testIDs(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)

	changed := offer
	changed.Event.Signature.Document += "changed"
	theirs := federationtest.File(federationtest.Offer(1, cleo, bob), federation.View{})
	for name, f := range map[string]federation.Filing{"other bytes": changed, "another signer's opening": theirs} {
		if _, err := record.Append(t.Context(), f); refusal(err) != federation.EventIDInUse {
			t.Errorf("Append of %s: %v, want a refusal %s", name, err, federation.EventIDInUse)
		}
	}
	second := federationtest.File(federationtest.Offer(2, ada, bob), federation.View{})
	mustAppend(t, record, second)
	same := federationtest.Step(1, second.Event, federation.Accept, bob)
	if _, err := record.Append(t.Context(), federationtest.File(same, second.View)); err != nil {
		t.Errorf("Append of another signer's step with the same id: %v", err)
	}
}

func (s suite) testKnown(t *testing.T) {
	record := s.open(t)
	unstamped := federationtest.Offer(1, ada, bob)
	unstamped.Stamped = false
	first := mustAppend(t, record, federationtest.File(unstamped, federation.View{}))
	digest := first.Event.Digest()
	tests := []struct {
		name   string
		from   federation.DID
		id     federation.EventID
		digest [32]byte
		want   federation.Entry
		err    error
		code   federation.RefusalCode
	}{
		{name: "by id", from: ada, id: federationtest.ID(1), digest: digest, want: first},
		{name: "by bytes", from: ada, digest: digest, want: first},
		{name: "by bytes, with an id minted anew", from: ada, id: federationtest.ID(2), digest: digest, want: first},
		{name: "other bytes under the id", from: ada, id: federationtest.ID(1), digest: [32]byte{1}, code: federation.EventIDInUse},
		{name: "other id and bytes", from: ada, id: federationtest.ID(2), digest: [32]byte{1}, err: federation.ErrNotFound},
		{name: "other bytes without an id", from: ada, digest: [32]byte{1}, err: federation.ErrNotFound},
		{name: "another signer", from: bob, id: federationtest.ID(1), digest: digest, err: federation.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := record.Known(t.Context(), tt.from, tt.id, tt.digest)
			switch {
			case refusal(err) != tt.code:
				t.Errorf("error is %v, want a refusal %q", err, tt.code)
			case tt.code == "" && !errors.Is(err, tt.err):
				t.Errorf("error is %v, want %v", err, tt.err)
			}
			if d := diff(tt.want, got); d != "" {
				t.Errorf("entry (-want +got):\n%s", d)
			}
		})
	}
}

func (s suite) testReference(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View))
	posing := federationtest.File(federationtest.Offer(3, cleo, bob), federation.View{})
	posing.Event.Arrival.MessageID = federationtest.ID(2).String()
	mustAppend(t, record, posing)
	copying := federationtest.File(federationtest.Offer(4, cleo, bob), federation.View{})
	copying.Event.Arrival.MessageID = "msg-2"
	mustAppend(t, record, copying)
	silent := federationtest.File(federationtest.Offer(5, cleo, bob), federation.View{})
	silent.Event.Arrival.MessageID = ""
	mustAppend(t, record, silent)

	for ref, want := range map[string]federation.HandoffID{
		federationtest.ID(1).String(): federationtest.ID(1),
		federationtest.ID(2).String(): federationtest.ID(1), // and not that of the message with this id
		"msg-1":                       federationtest.ID(1),
		"msg-2":                       federationtest.ID(1), // and not that of its second use
		"msg-5":                       {},
		"":                            {},
	} {
		got, err := record.Reference(t.Context(), ref)
		if got != want || want.IsZero() != errors.Is(err, federation.ErrNotFound) || err != nil && !want.IsZero() {
			t.Errorf("Reference(%q) = %s, %v, want %s", ref, got, err, want)
		}
	}
}

func (s suite) testEvidence(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := federationtest.File(federationtest.Vouch(federationtest.Step(2, offer.Event, federation.Accept, bob), "one message"), offer.View)
	filed := mustAppend(t, record, accept)
	progress := federationtest.File(federationtest.Vouch(federationtest.Step(3, offer.Event, federation.Progress, bob), "one message"), accept.View)
	mustAppend(t, record, progress)

	digest := accept.Event.Evidence.Digest
	for range 2 {
		if got, err := record.Evidence(t.Context(), digest); err != nil || string(got) != "one message" {
			t.Errorf("Evidence = %q, %v", got, err)
		}
	}
	if _, err := record.Evidence(t.Context(), [32]byte{1}); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Evidence of nothing: %v, want ErrNotFound", err)
	}
	if view, err := record.EvidenceOf(t.Context(), digest); err != nil || view.ID != offer.View.ID || view.Venue != offer.View.Venue {
		t.Errorf("EvidenceOf = %+v, %v, want the handoff that named it", view, err)
	}
	if _, err := record.EvidenceOf(t.Context(), [32]byte{1}); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("EvidenceOf nothing: %v, want ErrNotFound", err)
	}
	want := withoutBytes(accept.Event)
	if d := diff(want, filed.Event); d != "" {
		t.Errorf("entry as filed (-want +got):\n%s", d)
	}
	steps := log(t, record, offer.View.ID)
	if len(steps) != 3 {
		t.Fatalf("Log yields %d steps, want 3: one message may be two steps", len(steps))
	}
	if d := diff(want, steps[1].Event); d != "" {
		t.Errorf("entry as read (-want +got):\n%s", d)
	}
}

func (s suite) testKeep(t *testing.T) {
	record := s.open(t)
	kept := *federationtest.Vouch(federationtest.Offer(1, ada, bob), "a rendition").Evidence
	for range 2 {
		if err := record.Keep(t.Context(), federationtest.ID(1), kept); err != nil {
			t.Errorf("Keep: %v", err)
		}
	}
	vouched := federationtest.Vouch(federationtest.Offer(2, ada, bob), "a rendition")
	mustAppend(t, record, federationtest.File(vouched, federation.View{}))
	if got, err := record.Evidence(t.Context(), kept.Digest); err != nil || string(got) != "a rendition" {
		t.Errorf("Evidence = %q, %v", got, err)
	}
}

func race(ctx context.Context, f func(ctx context.Context, n int) error) []error {
	errs := make([]error, racers)
	start := make(chan struct{})
	var all sync.WaitGroup
	for n := range racers {
		all.Go(func() {
			<-start
			errs[n] = f(ctx, n)
		})
	}
	close(start)
	all.Wait()
	return errs
}

func (s suite) testRace(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	errs := race(t.Context(), func(ctx context.Context, n int) error {
		accept := federationtest.Step(n+2, offer.Event, federation.Accept, federationtest.Person(fmt.Sprint(n)))
		_, err := record.Append(ctx, federationtest.File(accept, offer.View))
		return err
	})
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, federation.ErrStale):
			t.Errorf("a loser gets %v, want ErrStale", err)
		}
	}
	if n := len(log(t, record, offer.View.ID)); won != 1 || n != 2 {
		t.Errorf("%d accepts won and the log has %d steps, want 1 and 2", won, n)
	}
}

func (s suite) testRepeatRace(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	entries := make([]federation.Entry, racers)
	errs := race(t.Context(), func(ctx context.Context, n int) (err error) {
		entries[n], err = record.Append(ctx, offer)
		return err
	})
	for n, err := range errs {
		if err != nil {
			t.Errorf("Append: %v", err)
		}
		if d := diff(entries[0], entries[n]); d != "" {
			t.Errorf("entries differ (-one +other):\n%s", d)
		}
	}
	if n := len(log(t, record, offer.View.ID)); n != 1 {
		t.Errorf("Log yields %d steps, want 1", n)
	}
}
