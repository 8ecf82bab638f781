package home_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
)

const oneAddress, otherAddress = "192.0.2.1/32", "2001:db8::/64"

func at(address string) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Arrival.Address = address }
}

func newStrangersBench(t *testing.T, limits home.StrangerLimits) bench {
	t.Helper()
	b := newBench(t)
	b.home.Limits.ClockSkew = 0 // ids are minted before the time that they are used at
	b.home.Strangers, b.home.Limits.Strangers = home.NewStrangers(), limits
	return b
}

// wantStranger submits a step refused until its signer is known longer.
func (b bench) wantStranger(what string, ev federation.Event, reason federation.NewDIDLimitReason, retry time.Duration) {
	b.t.Helper()
	_, err := b.home.Submit(b.t.Context(), ev, b.now)
	stranger, ok := errors.AsType[*federation.NewDIDLimitError](err)
	if !ok || stranger.Reason != reason || stranger.RetryAfter != retry {
		b.t.Errorf("%s: %v (%+v), want %s and to come again after %v", what, err, stranger, reason, retry)
	}
	if away, ok := errors.AsType[*federation.UnavailableError](err); !ok || away.RetryAfter != retry {
		b.t.Errorf("%s: %v is no not-now", what, err)
	}
}

func TestStrangersAreLimitedPerHour(t *testing.T) {
	b := newStrangersBench(t, home.StrangerLimits{DIDs: 2})
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.alice, federation.Offer))
	b.file(b.step(3, b.carol, federation.Offer, func(ev *federation.Event) { ev.To = b.alice.did }))
	b.file(b.step(4, b.alice, federation.Offer)) // it was counted when it came
	open := b.step(5, b.alice, federation.Offer, func(ev *federation.Event) { ev.To = "" })
	b.file(open)
	claim := b.step(6, b.bob, federation.Claim, func(ev *federation.Event) { ev.Handoff = open.ID })
	b.wantStranger("the third DID", claim, federation.TooManyNewDIDs, time.Hour)
	b.file(b.step(7, b.bob, federation.Accept)) // it is a party of the first handoff
	b.now = b.now.Add(time.Hour)
	b.file(claim)
}

func TestStrangersAreLimitedPerAddress(t *testing.T) {
	b := newStrangersBench(t, home.StrangerLimits{PerAddress: 1})
	b.file(b.step(1, b.alice, federation.Offer, at(oneAddress)), b.step(2, b.alice, federation.Offer, at(oneAddress)))
	b.now = b.now.Add(time.Minute)
	offer := b.step(3, b.carol, federation.Offer, at(oneAddress))
	b.wantStranger("the second DID of an address", offer, federation.TooManyFromOneAddress, 59*time.Minute)
	b.file(b.step(4, b.bob, federation.Offer, at(""), func(ev *federation.Event) { ev.To = b.alice.did })) // behind a server link
	b.file(b.step(5, b.carol, federation.Offer, at(otherAddress)))
	b.file(b.step(6, b.carol, federation.Offer, at(oneAddress))) // it is known by now
}

func TestStrangersAreLimitedByGrowth(t *testing.T) {
	b := newStrangersBench(t, home.StrangerLimits{RecordBytes: 1000})
	b.file(b.step(1, b.alice, federation.Offer))
	b.now = b.now.Add(time.Hour)
	b.file(b.step(2, b.carol, federation.Offer))
	b.home.Strangers.Grown(1000)
	b.wantStranger("a DID that was met within the hour", b.step(3, b.carol, federation.Offer), federation.TooMuchGrowth, 5*time.Minute)
	b.file(b.step(4, b.alice, federation.Offer))
	b.file(b.step(5, b.carol, federation.Cancel, func(ev *federation.Event) { ev.Handoff = federationtest.ID(2) }))
	b.file(b.step(6, b.bob, federation.Accept))
	foreign := b.step(7, b.bob, federation.Offer, func(ev *federation.Event) {
		ev.To, ev.Arrival.Home = b.alice.did, "other.example"
	})
	b.file(foreign) // its own home let it in
	b.home.Strangers.Grown(999)
	b.file(b.step(8, b.carol, federation.Offer))
}

func TestStrangersWithoutFiledStepsAreNotCounted(t *testing.T) {
	b := newStrangersBench(t, home.StrangerLimits{DIDs: 1})
	if _, err := b.home.Submit(t.Context(), b.step(2, b.bob, federation.Accept), b.now); codeOf(err) != federation.UnknownHandoff {
		t.Errorf("an accept of nothing: %v", err)
	}
	if n := b.home.Strangers.Met(b.now); n != 0 {
		t.Errorf("%d DIDs are counted, want none", n)
	}
	b.file(b.step(1, b.alice, federation.Offer))
	met, err := b.record.MetSince(t.Context(), b.now.Add(-time.Second), 10)
	if err != nil || len(met) != 1 || met[0].DID != b.alice.did {
		t.Errorf("the record met %+v, %v, want alice", met, err)
	}
}

func TestStrangersLimitsSkipDeferredSteps(t *testing.T) {
	b := newStrangersBench(t, home.StrangerLimits{RecordBytes: 1})
	all := b.home.Keys
	b.home.Keys = keys{} // the directory is away
	b.home.Deferral = home.NewDeferral(home.DeferralConfig{
		Record: b.record, Ended: func(context.Context, home.DeferralEnd) error { return nil },
	})
	offer := b.step(1, b.alice, federation.Offer)
	_, err := b.home.Submit(t.Context(), offer, b.now)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || !refused.Waits {
		t.Fatalf("Submit: %v, want that the step waits", err)
	}
	b.home.Keys = all
	b.home.Strangers.Grown(1)
	b.home.Deferral.Learned(b.alice.did)
	if _, err := b.home.Retry(t.Context(), b.now); err != nil {
		t.Error(err)
	}
	if view := b.view(1); view.State != federation.Offered {
		t.Errorf("the handoff is %q, want it offered", view.State)
	}
}

type unreadable struct{ home.Record }

func (unreadable) Acquainted(context.Context, federation.DID) (time.Time, bool, error) {
	return time.Time{}, false, &federation.UnavailableError{What: "record", Err: errors.New("no disk")}
}

func TestAdmitReturnsUnavailableWithoutItsRecord(t *testing.T) {
	b := newStrangersBench(t, home.StrangerLimits{DIDs: 1})
	b.home.Record = unreadable{b.record}
	_, err := b.home.Submit(t.Context(), b.step(1, b.alice, federation.Offer), b.now)
	if away, ok := errors.AsType[*federation.UnavailableError](err); !ok || away.What != "record" {
		t.Errorf("Submit: %v, want the record to be unavailable", err)
	}
}

func TestStrangersAreCountedInBoundedMemory(t *testing.T) {
	s, now := home.NewStrangers(), federationtest.At(0)
	const flood = 1<<16 + 100
	for n := range flood {
		s.Count(federation.DID(fmt.Sprint("did:example:", n)), fmt.Sprint(n%7), now, 0)
	}
	if n := s.Met(now); n != 1<<16 {
		t.Errorf("%d newcomers are counted, want at most %d", n, 1<<16)
	}
	if n := s.Met(now.Add(time.Hour)); n != 0 {
		t.Errorf("%d newcomers are counted an hour later, want none", n)
	}
}

func (b bench) meets(did, address string) bool {
	b.t.Helper()
	_, err := b.home.Admit(b.t.Context(), federation.DID(did), address, b.now)
	if stranger, ok := errors.AsType[*federation.NewDIDLimitError](err); ok && stranger.Reason == federation.TooManyNewDIDs {
		return false
	}
	if err == nil {
		err = b.home.Meet(b.t.Context(), federation.DID(did), address, b.now)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return true
}

func TestStrangersShareTheHourBySite(t *testing.T) {
	const limit, perAddress = 100, 3
	floods := map[string]func(n int) string{ // address of the n-th DID
		"34 subnets of one IPv6 site":   func(n int) string { return fmt.Sprintf("2001:db8:7:%x::/64", n/perAddress) },
		"addresses of one IPv4 network": func(n int) string { return fmt.Sprintf("192.0.2.%d/32", n/perAddress) },
		"four IPv4 networks":            func(n int) string { return fmt.Sprintf("192.0.%d.%d/32", n%4, n/perAddress) },
		"a server link":                 func(int) string { return "" },
	}
	for name, from := range floods {
		t.Run(name, func(t *testing.T) {
			b := newStrangersBench(t, home.StrangerLimits{DIDs: limit, PerAddress: perAddress})
			for n := range limit {
				if !b.meets(fmt.Sprint("did:example:flood-", n), from(n)) {
					t.Fatalf("DID %d of %d is refused", n, limit)
				}
				b.now = b.now.Add(time.Millisecond)
			}
			flood := func(n int) bool { return b.meets(fmt.Sprint("did:example:more-", n), from(limit+n)) }
			if flood(0) {
				t.Error("the flood goes on beyond the limit")
			}
			honest := 0
			for n := range 20 {
				if b.meets(fmt.Sprint("did:example:honest-", n), fmt.Sprintf("203.0.%d.5/32", n)) {
					honest++
				}
			}
			if honest != 20 {
				t.Errorf("%d of 20 honest newcomers got in", honest)
			}
			taken := 0
			for n := range 100 {
				if flood(1 + n) {
					taken++
				}
			}
			if taken != 0 {
				t.Errorf("the flood took %d of the places that it lost", taken)
			}
			b.now = b.now.Add(time.Hour)
			if n := b.home.Strangers.Met(b.now); n != 0 || !flood(200) {
				t.Errorf("an hour later %d are counted", n)
			}
		})
	}
}

// If all sites have equal shares, no place is taken from one for another.
func TestStrangersKeepEqualShares(t *testing.T) {
	b := newStrangersBench(t, home.StrangerLimits{DIDs: 10})
	for n := range 10 {
		b.meets(fmt.Sprint("did:example:", n), fmt.Sprintf("192.0.%d.1/32", n%5))
	}
	for n := range 5 {
		if address := fmt.Sprintf("192.0.%d.2/32", n); b.meets(fmt.Sprint("did:example:more-", n), address) {
			t.Errorf("one more from %s got in", address)
		}
	}
	if !b.meets("did:example:honest", "203.0.113.5/32") {
		t.Error("the first of a new site is refused")
	}
	if b.meets("did:example:honest-2", "203.0.113.6/32") {
		t.Error("the second of a new site got in: its share would be as large as the others")
	}
}
