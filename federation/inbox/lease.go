package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// LeaseTime is the length of a lease that names none.
const LeaseTime = time.Minute

// MaxLeaseTime bounds a lease, so that an entry leased by a dead device reaches another
// device within the day.
const MaxLeaseTime = 12 * time.Hour

// MaxDelay bounds how long an entry may be put off: a longer delay would exceed most deadlines.
const MaxDelay = 24 * time.Hour

// MaxLeases bounds how many entries one call leases, and with that how long other writes to the
// record wait.
const MaxLeases = 100

// maxDeviceName bounds the name of a device, in bytes.
const maxDeviceName = 64

// ErrDeviceName is returned for a name that no device may have.
var ErrDeviceName = errors.New("inbox: a device has a name of 1 to 64 letters, digits and ._-")

// checkDevice refuses a name that does not fit into a path, a log line and a table.
func checkDevice(name string) error {
	if name == "" || len(name) > maxDeviceName {
		return ErrDeviceName
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return ErrDeviceName
		}
	}
	return nil
}

// Lease gives a device up to limit waiting entries, oldest first, at most [MaxLeases]. No other
// device gets them for a length of time: [LeaseTime] for 0, at most [MaxLeaseTime]. Delivery counts
// how often an entry was leased. The error is [ErrDeviceName] or that of [Leases].
func (m Mailbox) Lease(ctx context.Context, to federation.DID, device string, limit int, length time.Duration, now time.Time) ([]federation.Lease, error) {
	if err := checkDevice(device); err != nil {
		return nil, err
	}
	leases, err := m.Leases.Lease(ctx, to, device, "", now, now.Add(leaseTime(length)), min(limit, MaxLeases))
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	return leases, nil
}

func leaseTime(length time.Duration) time.Duration {
	if length <= 0 {
		return LeaseTime
	}
	return min(length, MaxLeaseTime)
}

// Ack ends the waiting of an entry for all devices. The error is [federation.ErrLeaseLost] when
// another device was given the entry meanwhile, which has to acknowledge it.
func (m Mailbox) Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error {
	if err := m.Leases.Ack(ctx, to, hold, now); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// Nack puts an entry back, to be leased again after a delay of at most [MaxDelay].
func (m Mailbox) Nack(ctx context.Context, to federation.DID, hold federation.Hold, delay time.Duration, now time.Time) error {
	again := now.Add(min(max(delay, 0), MaxDelay))
	if err := m.Leases.Nack(ctx, to, hold, again); err != nil {
		return fmt.Errorf("put back: %w", err)
	}
	return nil
}

// Extend makes a lease end after a length of time from now, as [Mailbox.Lease] counts it.
func (m Mailbox) Extend(ctx context.Context, to federation.DID, hold federation.Hold, length time.Duration, now time.Time) error {
	if err := m.Leases.Extend(ctx, to, hold, now.Add(leaseTime(length))); err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	return nil
}

// Advance notes that a device has read an inbox up to a cursor. The error is
// [ErrDeviceName] or that of [Devices].
func (m Mailbox) Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error {
	if err := checkDevice(device); err != nil {
		return err
	}
	if err := m.Devices.Advance(ctx, of, device, upTo, now); err != nil {
		return fmt.Errorf("advance: %w", err)
	}
	return nil
}
