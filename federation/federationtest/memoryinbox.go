package federationtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// memoryDevice is a device with the number of the entry that it read last.
type memoryDevice struct {
	number uint64
	since  time.Time
	seen   time.Time
}

// Lease implements [Leases].
func (m *Memory) Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if !m.hasSessionID(session) {
		return nil, federation.ErrSessionEnded
	}
	var leases []federation.Lease
	inbox := m.inboxes[to]
	for i, row := range inbox {
		if ev := row.entry.Event; ev.ID == ev.Handoff && m.views[ev.Handoff].Over { // withdrawn
			m.end(to, &inbox[i], federation.DeliveryExpired, now)
		}
		if inbox[i].read || row.until.After(now) || len(leases) >= limit {
			continue
		}
		row.device, row.session, row.until = device, session, until
		row.delivery++
		inbox[i] = row
		entry := m.at(row, to)
		leases = append(leases, federation.Lease{
			Hold:  federation.Hold{Cursor: entry.Cursor, Device: device, Delivery: row.delivery},
			Entry: entry, Until: until,
		})
	}
	return leases, nil
}

// held changes the entry of a lease for the device that holds it.
func (m *Memory) held(ctx context.Context, to federation.DID, hold federation.Hold, change func(*inboxRow) error) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	inbox := m.inboxes[to]
	i := slices.IndexFunc(inbox, func(row inboxRow) bool { return row.at(to).Cursor == hold.Cursor })
	if i < 0 || inbox[i].delivery != hold.Delivery || hold.Delivery == 0 || inbox[i].device != hold.Device {
		return federation.ErrLeaseLost
	}
	return change(&inbox[i])
}

// Ack implements [Leases].
func (m *Memory) Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error {
	return m.held(ctx, to, hold, func(row *inboxRow) error {
		m.end(to, row, federation.DeliveryDelivered, now)
		return nil
	})
}

// Nack implements [Leases].
func (m *Memory) Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error {
	return m.held(ctx, to, hold, func(row *inboxRow) error {
		if row.read {
			return federation.ErrLeaseLost
		}
		row.device, row.until = noHolder, again
		return nil
	})
}

// noHolder stands for the holder of an entry that was put back.
const noHolder = "\x00"

// Extend implements [Leases].
func (m *Memory) Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error {
	return m.held(ctx, to, hold, func(row *inboxRow) error {
		if row.read {
			return federation.ErrLeaseLost
		}
		row.until = until
		return nil
	})
}

// Devices implements [Devices].
func (m *Memory) Devices(ctx context.Context, of federation.DID) ([]federation.Device, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var devices []federation.Device
	for name, d := range m.devices[of] {
		device := federation.Device{Name: name, Since: d.since, Seen: d.seen}
		if d.number > 0 {
			device.Cursor = cursor("did "+string(of), int(d.number)) //nolint:gosec // as many as a test files
		}
		devices = append(devices, device)
	}
	slices.SortFunc(devices, func(a, b federation.Device) int { return strings.Compare(a.Name, b.Name) })
	return devices, nil
}

// Advance implements [Devices].
func (m *Memory) Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	n, err := m.place(of, upTo)
	if err != nil {
		return err
	}
	if device != "" {
		if err := m.advance(of, device, n, now); err != nil {
			return err
		}
	}
	inbox := m.inboxes[of]
	for i, row := range inbox {
		if row.entry.Number <= n {
			m.end(of, &inbox[i], federation.DeliveryDelivered, now)
		}
	}
	return nil
}

func (m *Memory) advance(of federation.DID, device string, n uint64, now time.Time) error {
	d, known := m.devices[of][device]
	switch {
	case !known && len(m.devices[of]) >= federation.MaxDevices:
		return federation.ErrTooManyDevices
	case !known:
		d = memoryDevice{since: now}
	}
	if m.devices[of] == nil {
		m.devices[of] = map[string]memoryDevice{}
	}
	d.number = max(d.number, n)
	if now.After(d.seen) {
		d.seen = now
	}
	m.devices[of][device] = d
	return nil
}

// Forget implements [Devices].
func (m *Memory) Forget(ctx context.Context, of federation.DID, device string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if _, known := m.devices[of][device]; !known {
		return federation.ErrNotFound
	}
	delete(m.devices[of], device)
	return nil
}

// Undelivered implements [Inboxes].
func (m *Memory) Undelivered(ctx context.Context, before time.Time, limit int) ([]federation.Undelivered, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var waiting []federation.Undelivered
	for to, inbox := range m.inboxes {
		for _, row := range inbox {
			if !row.read && !row.entry.Filed.After(before) {
				waiting = append(waiting, federation.Undelivered{To: to, Entry: m.at(row, to), View: m.views[row.entry.Event.Handoff]})
			}
		}
	}
	slices.SortFunc(waiting, func(a, b federation.Undelivered) int {
		return cmp.Or(a.Entry.Filed.Compare(b.Entry.Filed), strings.Compare(string(a.To), string(b.To)))
	})
	return waiting[:min(max(limit, 0), len(waiting))], nil
}
