package store_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// modelled is the part of a record that the model does too.
type modelled interface {
	Append(ctx context.Context, f federation.Filing) (federation.Entry, error)
	Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error)
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	Waiting(ctx context.Context, to federation.DID) (entries int, size int64, err error)
	Undelivered(ctx context.Context, before time.Time, limit int) ([]federation.Undelivered, error)
	Read(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error
	ExpireUnread(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error
	Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error)
	Ack(ctx context.Context, to federation.DID, hold federation.LeaseToken, now time.Time) error
	Nack(ctx context.Context, to federation.DID, hold federation.LeaseToken, again time.Time) error
	Extend(ctx context.Context, to federation.DID, hold federation.LeaseToken, until time.Time) error
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
	Forget(ctx context.Context, of federation.DID, device string) error
	Delay(ctx context.Context, before, now time.Time, limit int) (int, error)
	Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error)
	dueNotices(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error)
	Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error)
}

// recorded is a record with the notices that are due.
type recorded struct{ *registry.Record }

func (r recorded) dueNotices(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error) {
	due, err := storetest.DueNotices(ctx, r.Record, link, now, limit)
	var found []federation.Notice
	for _, d := range due {
		found = append(found, *d.Notice)
	}
	return found, err
}

// inboxModel is a plain record of the steps of a test: each inbox is the only way to its DID, and
// no step has a link, an agent or a webhook.
type inboxModel struct {
	steps   []federation.Entry // in the order of filing
	views   map[federation.HandoffID]federation.View
	inboxes map[federation.DID][]*arrival
	arrived map[federation.DID]uint64 // how many entries an inbox ever had
	devices map[federation.DID]map[string]modelDevice
	notices []federation.Notice
}

type arrival struct {
	to      federation.DID
	entry   federation.Entry // with its number
	over    bool             // it no longer waits
	outcome federation.DeliveryState
	ended   time.Time
	late    bool // whether its signer has a notice of the delay

	device   string // of its lease
	delivery int
	until    time.Time
}

type modelDevice struct {
	number      uint64
	since, seen time.Time
}

func newInboxModel() *inboxModel {
	return &inboxModel{
		views: map[federation.HandoffID]federation.View{}, inboxes: map[federation.DID][]*arrival{}, arrived: map[federation.DID]uint64{},
		devices: map[federation.DID]map[string]modelDevice{},
	}
}

func (m *inboxModel) Append(_ context.Context, f federation.Filing) (federation.Entry, error) {
	if m.views[f.View.ID].Version != f.After {
		return federation.Entry{}, federation.ErrStale
	}
	entry := federation.Entry{Event: f.Event, Version: f.View.Version, State: f.View.State, Filed: f.Filed}
	m.steps = append(m.steps, entry)
	m.views[f.View.ID] = f.View
	for _, did := range f.Inboxes {
		m.arrived[did]++
		arrived := entry
		arrived.Number, arrived.Cursor = m.arrived[did], modelCursor(did, m.arrived[did])
		m.inboxes[did] = append(m.inboxes[did], &arrival{to: did, entry: arrived})
	}
	return entry, nil
}

// Prune does everything in one call.
func (m *inboxModel) Prune(_ context.Context, before, _ time.Time, _ federation.Cursor, _ int) (pruned int, next federation.Cursor, err error) {
	for id, v := range m.views {
		if newest := m.steps[len(m.steps)-1]; !v.Over || v.Moved.After(before) || newest.Event.Handoff == id {
			continue
		}
		m.steps = slices.DeleteFunc(m.steps, func(e federation.Entry) bool { return e.Event.Handoff == id })
		for did, inbox := range m.inboxes {
			m.inboxes[did] = slices.DeleteFunc(inbox, func(a *arrival) bool { return a.entry.Event.Handoff == id })
		}
		delete(m.views, id)
		pruned++
	}
	return pruned, "", nil
}

// modelCursor returns the position after the entry of a number.
func modelCursor(did federation.DID, number uint64) federation.Cursor {
	return federation.Cursor(fmt.Sprintf("%s %d", did, number))
}

// number is the reverse of modelCursor; 0 is the start.
func (m *inboxModel) number(did federation.DID, c federation.Cursor) (uint64, error) {
	for n := range m.arrived[did] {
		if c == modelCursor(did, n+1) {
			return n + 1, nil
		}
	}
	if c != "" {
		return 0, federation.ErrUnknownCursor
	}
	return 0, nil
}

func (m *inboxModel) Replay(_ context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	n, err := m.number(to, after)
	if err != nil {
		return nil, err
	}
	var entries []federation.Entry
	for _, a := range m.inboxes[to] {
		if a.entry.Number > n && len(entries) < limit {
			entries = append(entries, a.entry)
		}
	}
	return entries, nil
}

func (m *inboxModel) Waiting(_ context.Context, to federation.DID) (entries int, size int64, err error) {
	for _, a := range m.inboxes[to] {
		if !a.over {
			entries++
			size += int64(len(a.entry.Event.Signature.Document))
		}
	}
	return entries, size, nil
}

func (m *inboxModel) Undelivered(_ context.Context, before time.Time, limit int) ([]federation.Undelivered, error) {
	var waiting []federation.Undelivered
	for _, a := range m.arrivals() {
		if !a.over && !a.entry.Filed.After(before) && len(waiting) < limit {
			waiting = append(waiting, federation.Undelivered{To: a.to, Entry: a.entry, View: m.views[a.entry.Event.Handoff]})
		}
	}
	return waiting, nil
}

func (m *inboxModel) arrivals() []*arrival {
	var all []*arrival
	for _, inbox := range m.inboxes {
		all = append(all, inbox...)
	}
	slices.SortStableFunc(all, func(a, b *arrival) int {
		return cmp.Or(a.entry.Filed.Compare(b.entry.Filed), strings.Compare(string(a.to), string(b.to)))
	})
	return all
}

// end ends the waiting of an entry. The signer of a late one gets a notice.
func (m *inboxModel) end(a *arrival, how federation.DeliveryState, now time.Time) {
	if a.over {
		return
	}
	a.over, a.outcome, a.ended = true, how, now
	if a.late && how != federation.DeliveryExpired {
		m.notify(federation.Notice{Kind: federation.NoticeDelivered, Event: a.entry.Event, To: string(a.to)})
	}
}

func (m *inboxModel) notify(n federation.Notice) {
	if !slices.ContainsFunc(m.notices, func(on federation.Notice) bool {
		return on.Kind == n.Kind && on.Event.From == n.Event.From && on.About() == n.About()
	}) {
		m.notices = append(m.notices, n)
	}
}

func (m *inboxModel) Read(_ context.Context, to federation.DID, events []federation.EventID, now time.Time) error {
	for _, a := range m.waiting(to, events) {
		m.end(a, federation.DeliveryDelivered, now)
	}
	return nil
}

func (m *inboxModel) ExpireUnread(_ context.Context, to federation.DID, events []federation.EventID, now time.Time) error {
	for _, a := range m.waiting(to, events) {
		m.end(a, federation.DeliveryExpired, now)
		if ev := a.entry.Event; ev.ID != ev.Handoff {
			m.notify(federation.Notice{Kind: federation.NoticeUndeliverable, Event: ev, To: string(to)})
		}
	}
	return nil
}

func (m *inboxModel) waiting(to federation.DID, events []federation.EventID) (waiting []*arrival) {
	for _, a := range m.inboxes[to] {
		if !a.over && slices.Contains(events, a.entry.Event.ID) {
			waiting = append(waiting, a)
		}
	}
	return waiting
}

func (m *inboxModel) Lease(_ context.Context, to federation.DID, device, _ string, now, until time.Time, limit int) ([]federation.Lease, error) {
	var leases []federation.Lease
	for _, a := range m.inboxes[to] {
		if ev := a.entry.Event; ev.ID == ev.Handoff && m.views[ev.Handoff].Over { // withdrawn
			m.end(a, federation.DeliveryExpired, now)
		}
		if a.over || a.until.After(now) || len(leases) >= limit {
			continue
		}
		a.device, a.until = device, until
		a.delivery++
		hold := federation.LeaseToken{Cursor: a.entry.Cursor, Device: device, Delivery: a.delivery}
		leases = append(leases, federation.Lease{LeaseToken: hold, Entry: a.entry, Until: until})
	}
	return leases, nil
}

func (m *inboxModel) held(to federation.DID, hold federation.LeaseToken) (*arrival, error) {
	inbox := m.inboxes[to]
	i := slices.IndexFunc(inbox, func(a *arrival) bool { return a.entry.Cursor == hold.Cursor })
	if i < 0 || inbox[i].delivery != hold.Delivery || inbox[i].device != hold.Device {
		return nil, federation.ErrLeaseLost
	}
	return inbox[i], nil
}

func (m *inboxModel) Ack(_ context.Context, to federation.DID, hold federation.LeaseToken, now time.Time) error {
	a, err := m.held(to, hold)
	if err == nil {
		m.end(a, federation.DeliveryDelivered, now)
	}
	return err
}

func (m *inboxModel) Nack(_ context.Context, to federation.DID, hold federation.LeaseToken, again time.Time) error {
	a, err := m.held(to, hold)
	if err == nil && a.over {
		err = federation.ErrLeaseLost
	}
	if err == nil {
		a.device, a.until = "\x00", again
	}
	return err
}

func (m *inboxModel) Extend(_ context.Context, to federation.DID, hold federation.LeaseToken, until time.Time) error {
	a, err := m.held(to, hold)
	if err == nil && a.over {
		err = federation.ErrLeaseLost
	}
	if err == nil {
		a.until = until
	}
	return err
}

func (m *inboxModel) Devices(_ context.Context, of federation.DID) ([]federation.Device, error) {
	var devices []federation.Device
	for name, d := range m.devices[of] {
		device := federation.Device{Name: name, Since: d.since, Seen: d.seen}
		if d.number > 0 {
			device.Cursor = modelCursor(of, d.number)
		}
		devices = append(devices, device)
	}
	slices.SortFunc(devices, func(a, b federation.Device) int { return strings.Compare(a.Name, b.Name) })
	return devices, nil
}

func (m *inboxModel) Advance(_ context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error {
	n, err := m.number(of, upTo)
	if err != nil {
		return err
	}
	if m.devices[of] == nil {
		m.devices[of] = map[string]modelDevice{}
	}
	d, known := m.devices[of][device]
	if !known {
		d.since = now
	}
	d.number = max(d.number, n)
	if now.After(d.seen) {
		d.seen = now
	}
	m.devices[of][device] = d
	for _, a := range m.inboxes[of] {
		if a.entry.Number <= n {
			m.end(a, federation.DeliveryDelivered, now)
		}
	}
	return nil
}

func (m *inboxModel) Forget(_ context.Context, of federation.DID, device string) error {
	if _, known := m.devices[of][device]; !known {
		return federation.ErrNotFound
	}
	delete(m.devices[of], device)
	return nil
}

func (m *inboxModel) Delay(_ context.Context, before, _ time.Time, limit int) (delayed int, err error) {
	for _, a := range m.arrivals() {
		if delayed == limit || a.late || a.over || a.entry.Filed.After(before) {
			continue
		}
		a.late = true
		delayed++
		m.notify(federation.Notice{Kind: federation.NoticeDelayed, Event: a.entry.Event, To: string(a.to)})
	}
	return delayed, nil
}

func (m *inboxModel) Deliveries(_ context.Context, id federation.HandoffID, _ []string) ([]federation.Delivered, error) {
	var found []federation.Delivered
	for _, step := range m.steps {
		for _, a := range m.arrivals() {
			if ev := step.Event; ev.Handoff != id || a.entry.Event.ID != ev.ID {
				continue
			}
			d := federation.Delivered{Event: a.entry.Event.ID, Link: federation.InboxLink, Participant: string(a.to), State: a.outcome, Ended: a.ended}
			if !a.over {
				d.State = federation.DeliveryWaiting
			}
			found = append(found, d)
		}
	}
	return found, nil
}

func (m *inboxModel) dueNotices(_ context.Context, link string, _ time.Time, limit int) ([]federation.Notice, error) {
	var found []federation.Notice
	for _, n := range m.notices {
		if n.Link() == link && len(found) < limit {
			found = append(found, n)
		}
	}
	return found, nil
}

func (m *inboxModel) Handoffs(_ context.Context, f federation.Filter, _ federation.Cursor, _ int) ([]federation.View, federation.Cursor, error) {
	var views []federation.View
	for _, v := range m.views {
		if f.Admits(v) {
			views = append(views, v)
		}
	}
	slices.SortFunc(views, func(a, b federation.View) int {
		return cmp.Or(b.Moved.Compare(a.Moved), strings.Compare(b.ID.String(), a.ID.String()))
	})
	return views, "", nil
}
