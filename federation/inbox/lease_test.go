package inbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/inbox"
)

// lease leases entries, which have to be so many.
func lease(t *testing.T, m inbox.Mailbox, limit int, length time.Duration, now time.Time, want int) []federation.Lease {
	t.Helper()
	leases, err := m.Lease(t.Context(), federationtest.Person("bob"), "desk", limit, length, now)
	if err != nil || len(leases) != want {
		t.Fatalf("%d entries are leased, %v, want %d", len(leases), err, want)
	}
	return leases
}

func TestALeaseHoldsAMinuteUnlessAskedOtherwise(t *testing.T) {
	now := federationtest.At(0)
	for _, tt := range []struct{ asked, want time.Duration }{
		{0, time.Minute}, {-time.Second, time.Minute}, {time.Second, time.Second}, {24 * time.Hour, inbox.MaxLeaseTime},
	} {
		mailbox := fill(t, federationtest.Person("bob"), 1)
		first := lease(t, mailbox, 1, tt.asked, now, 1)[0]
		if !first.Until.Equal(now.Add(tt.want)) {
			t.Errorf("asked for %s it holds until %s, want %s", tt.asked, first.Until, now.Add(tt.want))
		}
		lease(t, mailbox, 1, 0, first.Until.Add(-1), 0)
		lease(t, mailbox, 1, 0, first.Until, 1)
	}
}

func TestNoMoreIsLeasedAtOnceThanTheLimit(t *testing.T) {
	mailbox := fill(t, federationtest.Person("bob"), inbox.MaxLeases+2)
	lease(t, mailbox, inbox.MaxLeases+1, 0, federationtest.At(0), inbox.MaxLeases)
	lease(t, mailbox, inbox.MaxLeases+1, 0, federationtest.At(0), 2)
}

func TestWhatIsPutOffComesAgainAfterItsDelay(t *testing.T) {
	bob, now := federationtest.Person("bob"), federationtest.At(0)
	for _, tt := range []struct{ asked, want time.Duration }{
		{0, 0}, {-time.Second, 0}, {time.Minute, time.Minute}, {1000 * time.Hour, inbox.MaxDelay},
	} {
		mailbox := fill(t, bob, 1)
		hold := lease(t, mailbox, 1, 0, now, 1)[0].Hold
		if err := mailbox.Nack(t.Context(), bob, hold, tt.asked, now); err != nil {
			t.Fatalf("Nack: %v", err)
		}
		lease(t, mailbox, 1, 0, now.Add(tt.want-1), 0)
		lease(t, mailbox, 1, 0, now.Add(tt.want), 1)
	}
}

func TestALeaseIsExtendedFromNowOn(t *testing.T) {
	bob, now := federationtest.Person("bob"), federationtest.At(0)
	mailbox := fill(t, bob, 1)
	hold := lease(t, mailbox, 1, 0, now, 1)[0].Hold
	if err := mailbox.Extend(t.Context(), bob, hold, 0, now.Add(30*time.Second)); err != nil {
		t.Fatalf("Extend: %v", err)
	}
	lease(t, mailbox, 1, 0, now.Add(89*time.Second), 0)
	lease(t, mailbox, 1, 0, now.Add(90*time.Second), 1)
	for name, err := range map[string]error{
		"Extend": mailbox.Extend(t.Context(), bob, hold, 0, now),
		"Nack":   mailbox.Nack(t.Context(), bob, hold, 0, now),
		"Ack":    mailbox.Ack(t.Context(), bob, hold, now),
	} {
		if !errors.Is(err, federation.ErrLeaseLost) {
			t.Errorf("%s of the first lease: %v, want ErrLeaseLost", name, err)
		}
	}
}

func TestAnAcknowledgedEntryIsNotLeasedAgain(t *testing.T) {
	bob, now := federationtest.Person("bob"), federationtest.At(0)
	mailbox := fill(t, bob, 1)
	if err := mailbox.Ack(t.Context(), bob, lease(t, mailbox, 1, 0, now, 1)[0].Hold, now); err != nil {
		t.Fatalf("Ack: %v", err)
	}
	lease(t, mailbox, 1, 0, now.Add(time.Hour), 0)
}

func TestADeviceHasAPlainName(t *testing.T) {
	bob, now := federationtest.Person("bob"), federationtest.At(0)
	mailbox := fill(t, bob, 1)
	for _, name := range []string{"", "my phone", "a/b", "é", "a\n", strings.Repeat("a", 65)} {
		_, leased := mailbox.Lease(t.Context(), bob, name, 1, 0, now)
		advanced := mailbox.Advance(t.Context(), bob, name, "", now)
		if !errors.Is(leased, inbox.ErrDeviceName) || !errors.Is(advanced, inbox.ErrDeviceName) {
			t.Errorf("%q: %v, %v, want ErrDeviceName", name, leased, advanced)
		}
	}
	for n := range federation.MaxDevices {
		if err := mailbox.Advance(t.Context(), bob, "Phone_1-"+strings.Repeat(".", n), "", now); err != nil {
			t.Errorf("Advance: %v", err)
		}
	}
	if err := mailbox.Advance(t.Context(), bob, "desk", "", now); !errors.Is(err, federation.ErrTooManyDevices) {
		t.Errorf("one device more: %v, want ErrTooManyDevices", err)
	}
}
