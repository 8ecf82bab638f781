package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runLeases(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("what waits is leased once, oldest first, until the lease ends", s.testLease)
	t.Run("an acknowledged entry waits no more, and is replayed all the same", s.testAck)
	t.Run("an entry that was put back comes again in its time", s.testNack)
	t.Run("an extended lease holds on", s.testExtend)
	t.Run("an offer that was withdrawn is not leased, and entries tell the state of now", s.testWithdrawn)
	t.Run("a lease ends the waiting of a withdrawn offer that a device has, whatever the limit", s.testWithdrawnInHand)
	t.Run("a session that has ended leases nothing, whether something waits or not", s.testLeaseAfterItsSession)
	t.Run("a lease that another device was given is lost", s.testLost)
	t.Run("of many devices that acknowledge at once one is heard", s.testAckRace)
	t.Run("each entry is leased to one of many devices at once", s.testLeaseRace)
}

func runDevices(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("each device has a place of its own, and never moves back", s.testDevices)
	t.Run("what one device has read waits for none", s.testAdvance)
	t.Run("a device too many is refused until another one is forgotten", s.testTooManyDevices)
	t.Run("many devices at once are no more than allowed", s.testDeviceRace)
}

func numbers(leases []federation.Lease) (numbers []uint64, deliveries []int) {
	for _, l := range leases {
		numbers, deliveries = append(numbers, l.Entry.Number), append(deliveries, l.Delivery)
	}
	return numbers, deliveries
}

func leased(t *testing.T, record *registry.Record, device string, now, limit int, want ...uint64) []federation.Lease {
	t.Helper()
	leases, err := record.Lease(t.Context(), bob, device, "", federationtest.At(now), federationtest.At(now+60), limit)
	if got, _ := numbers(leases); err != nil || diff(want, got) != "" {
		t.Fatalf("at %d %s is given %d, %v, want %d", now, device, got, err, want)
	}
	return leases
}

func checkWaiting(t *testing.T, record *registry.Record, want int) {
	t.Helper()
	if n, _, err := record.Waiting(t.Context(), bob); err != nil || n != want {
		t.Errorf("%d entries wait, %v, want %d", n, err, want)
	}
}

func (s suite) testLease(t *testing.T) {
	record := s.open(t)
	leased(t, record, "desk", 100, 10)
	filed := fill(t, record, 4, bob, cleo)
	leased(t, record, "desk", 100, 0)
	first := leased(t, record, "desk", 100, 2, 1, 2)
	entry := replay(t, record, bob, "", 1)[0]
	want := federation.Lease{
		LeaseToken: federation.LeaseToken{Cursor: entry.Cursor, Device: "desk", Delivery: 1},
		Entry:      entry, Until: federationtest.At(160),
	}
	if d := diff(want, first[0]); d != "" || entry.Event.ID != filed[0].Event.ID {
		t.Errorf("lease (-want +got):\n%s", d)
	}
	leased(t, record, "phone", 159, 10, 3, 4)
	leased(t, record, "phone", 159, 10)
	again := leased(t, record, "phone", 160, 10, 1, 2)
	if _, deliveries := numbers(again); diff([]int{2, 2}, deliveries) != "" {
		t.Errorf("deliveries are %d, want the second of each", deliveries)
	}
	checkWaiting(t, record, 4)
	if err := record.Read(t.Context(), bob, []federation.EventID{federationtest.ID(3)}, federationtest.At(100)); err != nil {
		t.Errorf("Read: %v", err)
	}
	leased(t, record, "desk", 1000, 10, 1, 2, 4)
}

func (s suite) testAck(t *testing.T) {
	record := s.open(t)
	fill(t, record, 3, bob)
	leases := leased(t, record, "desk", 100, 3, 1, 2, 3)
	for range 2 { // the second one changes nothing
		if err := record.Ack(t.Context(), bob, leases[1].LeaseToken, federationtest.At(600)); err != nil {
			t.Errorf("Ack: %v", err)
		}
		checkWaiting(t, record, 2)
	}
	if err := record.Ack(t.Context(), bob, leased(t, record, "desk", 500, 1, 1)[0].LeaseToken, federationtest.At(600)); err != nil {
		t.Errorf("Ack: %v", err)
	}
	leased(t, record, "desk", 900, 10, 3)
	if got := replay(t, record, bob, "", 10); len(got) != 3 {
		t.Errorf("Replay returns %d entries, want all 3", len(got))
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(9, ada, bob), federation.View{}))
	leased(t, record, "phone", 900, 10, 4)
}

func (s suite) testNack(t *testing.T) {
	record := s.open(t)
	fill(t, record, 2, bob)
	hold := leased(t, record, "desk", 100, 1, 1)[0].LeaseToken
	if err := record.Nack(t.Context(), bob, hold, federationtest.At(130)); err != nil {
		t.Errorf("Nack: %v", err)
	}
	lost(t, "after a Nack", record, hold, true)
	leased(t, record, "desk", 129, 1, 2)
	if again := leased(t, record, "phone", 130, 10, 1); again[0].Delivery != 2 {
		t.Errorf("delivery %d, want the second", again[0].Delivery)
	}
}

func (s suite) testExtend(t *testing.T) {
	record := s.open(t)
	fill(t, record, 1, bob)
	hold := leased(t, record, "desk", 100, 1, 1)[0].LeaseToken
	if err := record.Extend(t.Context(), bob, hold, federationtest.At(300)); err != nil {
		t.Errorf("Extend: %v", err)
	}
	leased(t, record, "phone", 299, 1)
	again := leased(t, record, "phone", 300, 1, 1)
	lost(t, "that ended", record, hold, true)
	if err := record.Ack(t.Context(), bob, again[0].LeaseToken, federationtest.At(600)); err != nil {
		t.Errorf("Ack: %v", err)
	}
	lost(t, "of an entry that was acknowledged", record, again[0].LeaseToken, false)
}

// lost checks that a lease has ended. Whether an Ack is too late as well depends on the last
// holder.
func lost(t *testing.T, name string, record *registry.Record, hold federation.LeaseToken, ack bool) {
	t.Helper()
	errs := map[string]error{
		"Nack": record.Nack(t.Context(), bob, hold, federationtest.At(0)), "Extend": record.Extend(t.Context(), bob, hold, federationtest.At(9000)),
	}
	if ack {
		errs["Ack"] = record.Ack(t.Context(), bob, hold, federationtest.At(600))
	}
	for method, err := range errs {
		if !errors.Is(err, federation.ErrLeaseLost) {
			t.Errorf("%s with a lease %s: %v, want ErrLeaseLost", method, name, err)
		}
	}
}

func (s suite) testLeaseAfterItsSession(t *testing.T) {
	record := s.open(t)
	begin(t, record, "one", string(bob), "K1", federation.BeganDID)
	begin(t, record, "two", string(bob), "K2", federation.BeganDID)
	if err := record.Revoke(t.Context(), bob, "K1", federationtest.At(20)); err != nil {
		t.Fatal(err)
	}
	if err := record.EndSession(t.Context(), []string{string(bob)}, "two", federationtest.At(20)); err != nil {
		t.Fatal(err)
	}
	for entries := range 2 {
		for _, session := range []string{"one", "two", "unknown"} {
			leases, err := record.Lease(t.Context(), bob, "desk", session, federationtest.At(30), federationtest.At(90), 1)
			if len(leases) != 0 || !errors.Is(err, federation.ErrSessionEnded) {
				t.Errorf("with %d entries, session %s leases %d, %v", entries, session, len(leases), err)
			}
		}
		fill(t, record, 1, bob)
	}
	leased(t, record, "desk", 30, 1, 1)
}

func (s suite) testLost(t *testing.T) {
	record := s.open(t)
	fill(t, record, 2, bob, cleo)
	first := leased(t, record, "desk", 100, 1, 1)[0].LeaseToken
	second := leased(t, record, "desk", 200, 1, 1)[0].LeaseToken
	lost(t, "of an earlier delivery", record, first, true)
	other, never, elsewhere := second, second, second
	other.Device = "phone"
	never.Delivery = 3
	elsewhere.Cursor = replay(t, record, cleo, "", 1)[0].Cursor
	untouched := federation.LeaseToken{Cursor: replay(t, record, bob, "", 2)[1].Cursor}
	for name, hold := range map[string]federation.LeaseToken{
		"of another device": other, "that was never given": never, "of another inbox": elsewhere,
		"of an entry that nobody was given": untouched, "of nothing": {},
	} {
		lost(t, name, record, hold, true)
	}
	checkWaiting(t, record, 2)
	if err := record.Ack(t.Context(), bob, second, federationtest.At(600)); err != nil {
		t.Errorf("Ack: %v", err)
	}
	checkWaiting(t, record, 1)
}

func (s suite) testAckRace(t *testing.T) {
	record := s.open(t)
	fill(t, record, 1, bob)
	holds := make([]federation.LeaseToken, racers)
	for n := range holds { // each lease ends at once, and the next device is given the entry
		leases, err := record.Lease(t.Context(), bob, fmt.Sprint("device ", n), "", federationtest.At(n), federationtest.At(n), 1)
		if err != nil || len(leases) != 1 {
			t.Fatalf("Lease = %d, %v", len(leases), err)
		}
		holds[n] = leases[0].LeaseToken
	}
	errs := race(t.Context(), func(ctx context.Context, n int) error { return record.Ack(ctx, bob, holds[n], federationtest.At(600)) })
	for n, err := range errs {
		if last := n == racers-1; last != (err == nil) || !last && !errors.Is(err, federation.ErrLeaseLost) {
			t.Errorf("Ack of device %d: %v", n, err)
		}
	}
	checkWaiting(t, record, 0)
	for n, hold := range holds { // and so it stays
		if err := record.Ack(t.Context(), bob, hold, federationtest.At(600)); (n == racers-1) != (err == nil) {
			t.Errorf("Ack of device %d again: %v", n, err)
		}
	}
}

func (s suite) testLeaseRace(t *testing.T) {
	record := s.open(t)
	const entries = 10
	fill(t, record, entries, bob)
	given := make([][]federation.Lease, racers)
	errs := race(t.Context(), func(ctx context.Context, n int) (err error) {
		given[n], err = record.Lease(ctx, bob, fmt.Sprint("device ", n%2), "", federationtest.At(100), federationtest.At(160), 3)
		return err
	})
	got, deliveries := numbers(slices.Concat(given...))
	slices.Sort(got)
	if err := errors.Join(errs...); err != nil || len(slices.Compact(got)) != entries || len(deliveries) != entries || slices.Max(deliveries) != 1 {
		t.Errorf("given are %d, deliveries %d, %v, want each of %d once", got, deliveries, err, entries)
	}
}

func devices(t *testing.T, record *registry.Record) []federation.Device {
	t.Helper()
	all, err := record.Devices(t.Context(), bob)
	if err != nil {
		t.Fatalf("Devices: %v", err)
	}
	return all
}

func (s suite) testDevices(t *testing.T) {
	record := s.open(t)
	if all := devices(t, record); len(all) != 0 {
		t.Errorf("devices are %+v, want none", all)
	}
	fill(t, record, 5, bob, cleo)
	all := replay(t, record, bob, "", 5)
	for i, move := range []struct {
		device string
		upTo   federation.Cursor
	}{
		{"phone", all[3].Cursor},
		{"desk", ""},
		{"phone", all[1].Cursor}, // back, which it does not go
		{"desk", all[4].Cursor},
		{"desk", ""},
		{"", all[4].Cursor},
	} {
		if err := record.Advance(t.Context(), bob, move.device, move.upTo, federationtest.At(10+i)); err != nil {
			t.Fatalf("Advance(%s): %v", move.device, err)
		}
	}
	want := []federation.Device{
		{Name: "desk", Cursor: all[4].Cursor, Since: federationtest.At(11), Seen: federationtest.At(14)},
		{Name: "phone", Cursor: all[3].Cursor, Since: federationtest.At(10), Seen: federationtest.At(12)},
	}
	if d := diff(want, devices(t, record)); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
	if rest := replay(t, record, bob, devices(t, record)[1].Cursor, 10); len(rest) != 1 || rest[0].Number != 5 {
		t.Errorf("the phone reads on with %d entries, want the fifth", len(rest))
	}
	foreign := replay(t, record, cleo, "", 1)[0].Cursor
	var unknown *federation.CursorError
	if err := record.Advance(t.Context(), bob, "phone", foreign, federationtest.At(20)); !errors.As(err, &unknown) || unknown.Newest != all[4].Cursor {
		t.Errorf("Advance to a foreign cursor: %v, want a CursorError with the newest", err)
	}
}

func (s suite) testAdvance(t *testing.T) {
	record := s.open(t)
	fill(t, record, 5, bob, cleo)
	all := replay(t, record, bob, "", 5)
	hold := leased(t, record, "desk", 100, 1, 1)[0].LeaseToken
	if err := record.Advance(t.Context(), bob, "phone", all[2].Cursor, federationtest.At(110)); err != nil {
		t.Fatalf("Advance: %v", err)
	}
	checkWaiting(t, record, 2)
	leased(t, record, "desk", 1000, 10, 4, 5)
	if err := record.Ack(t.Context(), bob, hold, federationtest.At(600)); err != nil {
		t.Errorf("Ack of what was read by another device: %v", err)
	}
	checkWaiting(t, record, 2)
	if n, _, err := record.Waiting(t.Context(), cleo); err != nil || n != 5 {
		t.Errorf("for somebody else wait %d, %v, want all 5", n, err)
	}
}

func (s suite) testTooManyDevices(t *testing.T) {
	record := s.open(t)
	fill(t, record, 1, bob)
	newest := replay(t, record, bob, "", 1)[0].Cursor
	for n := range federation.MaxDevices {
		if err := record.Advance(t.Context(), bob, fmt.Sprint(n), "", federationtest.At(n)); err != nil {
			t.Fatalf("Advance of device %d: %v", n, err)
		}
	}
	if err := record.Advance(t.Context(), bob, "one more", newest, federationtest.At(100)); !errors.Is(err, federation.ErrTooManyDevices) {
		t.Errorf("Advance of one more: %v, want ErrTooManyDevices", err)
	}
	checkWaiting(t, record, 1)
	for _, err := range []error{
		record.Advance(t.Context(), cleo, "one more", "", federationtest.At(100)), // a cursor of another inbox
		record.Advance(t.Context(), bob, "3", "", federationtest.At(100)),
		record.Forget(t.Context(), bob, "3"),
		record.Advance(t.Context(), bob, "one more", newest, federationtest.At(100)),
	} {
		if err != nil {
			t.Errorf("error %v", err)
		}
	}
	if err := record.Forget(t.Context(), bob, "3"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Forget again: %v, want ErrNotFound", err)
	}
}

func (s suite) testDeviceRace(t *testing.T) {
	record := s.open(t)
	errs := race(t.Context(), func(ctx context.Context, n int) error {
		return record.Advance(ctx, bob, fmt.Sprint(n), "", federationtest.At(1))
	})
	added := 0
	for _, err := range errs {
		switch {
		case err == nil:
			added++
		case !errors.Is(err, federation.ErrTooManyDevices):
			t.Errorf("Advance: %v, want ErrTooManyDevices", err)
		}
	}
	if n := len(devices(t, record)); added != federation.MaxDevices || n != added {
		t.Errorf("%d devices were added and %d are there, want %d", added, n, federation.MaxDevices)
	}
}

func (s suite) testWithdrawn(t *testing.T) {
	record := s.open(t)
	first := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, first)
	mustAppend(t, record, federationtest.File(federationtest.Offer(2, ada, bob), federation.View{}))
	if leases := leased(t, record, "desk", 100, 1, 1); leases[0].Entry.Now != federation.Offered {
		t.Errorf("a lease of an offer tells the state %q", leases[0].Entry.Now)
	}
	mustAppend(t, record, federationtest.File(federationtest.Step(3, first.Event, federation.Cancel, ada), first.View))
	leases := leased(t, record, "phone", 200, 10, 2, 3)
	for i, want := range []federation.State{federation.Offered, federation.Cancelled} {
		if leases[i].Entry.Now != want {
			t.Errorf("lease %d tells the state %q, want %q", i+1, leases[i].Entry.Now, want)
		}
	}
	entries, err := record.Replay(t.Context(), bob, "", 10)
	if err != nil || len(entries) != 3 {
		t.Fatalf("the inbox has %d entries, %v", len(entries), err)
	}
	if entries[0].State != federation.Offered || entries[0].Now != federation.Cancelled || entries[0].Waits {
		t.Errorf("the withdrawn offer is state %q, now %q, waits %t", entries[0].State, entries[0].Now, entries[0].Waits)
	}
}

func (s suite) testWithdrawnInHand(t *testing.T) {
	record := s.open(t)
	var holds []federation.LeaseToken
	for n := range 3 {
		offer := federationtest.File(federationtest.Offer(10+n, ada, bob), federation.View{})
		mustAppend(t, record, offer)
		holds = append(holds, leased(t, record, "desk", 100, 1, uint64(1+2*n))[0].LeaseToken)
		cancel := federationtest.File(federationtest.Step(20+n, offer.Event, federation.Cancel, ada), offer.View)
		mustAppend(t, record, cancel)
		if err := record.Read(t.Context(), bob, []federation.EventID{cancel.Event.ID}, federationtest.At(100)); err != nil {
			t.Errorf("Read: %v", err)
		}
		checkWaiting(t, record, 1)
		leased(t, record, "phone", 110, n) // while the other device has the only waiting entry
		checkWaiting(t, record, 0)
	}
	lost(t, "of a withdrawn offer", record, holds[0], false)
	if err := record.Ack(t.Context(), bob, holds[0], federationtest.At(120)); err != nil {
		t.Errorf("Ack of a withdrawn offer: %v", err)
	}
}
