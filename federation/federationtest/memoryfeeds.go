package federationtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// Replay implements [federation.Inboxes].
func (m *Memory) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	n, err := m.place(to, after)
	if err != nil {
		return nil, err
	}
	var entries []federation.Entry
	for _, row := range m.inboxes[to] {
		if row.entry.Number > n && len(entries) < limit {
			entries = append(entries, row.at(to))
		}
	}
	return entries, nil
}

// at returns the entry as it is read from an inbox.
func (r inboxRow) at(of federation.DID) federation.Entry {
	entry := r.entry
	entry.Cursor = cursor("did "+string(of), int(entry.Number)) //nolint:gosec // as many as a test files
	entry.Waits = !r.read
	return entry
}

// place returns the number of the entry that a cursor is after, 0 for the start.
func (m *Memory) place(of federation.DID, c federation.Cursor) (uint64, error) {
	newest := int(m.arrived[of]) //nolint:gosec // as many as a test files
	n, err := position("did "+string(of), c, newest)
	if err != nil {
		unknown := &federation.CursorError{}
		if newest > 0 {
			unknown.Newest = cursor("did "+string(of), newest)
		}
		return 0, unknown
	}
	return uint64(n), nil //nolint:gosec // from 0
}

// Waiting implements [federation.Inboxes].
func (m *Memory) Waiting(ctx context.Context, to federation.DID) (entries int, size int64, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, 0, err
	}
	for _, row := range m.inboxes[to] {
		if !row.read {
			entries++
			size += int64(len(row.entry.Event.Signature.Document))
		}
	}
	return entries, size, nil
}

// Read implements [federation.Inboxes].
func (m *Memory) Read(ctx context.Context, to federation.DID, events []federation.EventID) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	inbox := m.inboxes[to]
	for i, row := range inbox {
		inbox[i].read = row.read || slices.Contains(events, row.entry.Event.ID)
	}
	return nil
}

// cursor returns the position after entry n of an inbox.
func cursor(inbox string, n int) federation.Cursor {
	return federation.Cursor(fmt.Sprintf("%s-%d", federation.DID(inbox).Hash(), n))
}

// position is the reverse of cursor; 0 is the start.
func position(inbox string, c federation.Cursor, newest int) (int, error) {
	if c == "" {
		return 0, nil
	}
	for n := 1; n <= newest; n++ {
		if cursor(inbox, n) == c {
			return n, nil
		}
	}
	return 0, federation.ErrUnknownCursor
}

// Owed implements [federation.Feeds].
func (m *Memory) Owed(ctx context.Context, link string, after int64, limit int) ([]federation.Delivery, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var owed []federation.Delivery
	for _, f := range m.feeds {
		if f.link == link && f.row > after && len(owed) < limit {
			view := m.views[f.entry.Event.Handoff]
			owed = append(owed, federation.Delivery{Row: f.row, Entry: f.entry, View: view, Attempt: f.attempt})
		}
	}
	return owed, nil
}

// OwedIn implements [federation.Feeds].
func (m *Memory) OwedIn(ctx context.Context, link string, id federation.HandoffID) (int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, row := range m.feeds {
		if row.link == link && row.entry.Event.Handoff == id {
			n++
		}
	}
	return n, nil
}

// Attempt implements [federation.Feeds].
func (m *Memory) Attempt(ctx context.Context, link string, rows []int64) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for i, f := range m.feeds {
		if f.link == link && slices.Contains(rows, f.row) {
			m.feeds[i].attempt++
		}
	}
	return nil
}

// Settle implements [federation.Feeds].
func (m *Memory) Settle(ctx context.Context, link string, rows []int64, how federation.Settlement) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.feeds = slices.DeleteFunc(m.feeds, func(f feedRow) bool {
		settled := f.link == link && slices.Contains(rows, f.row)
		if settled {
			m.settled = append(m.settled, settledRow{event: f.entry.Event.ID, link: link, how: how, row: f})
		}
		if settled && how.Shown {
			m.show(link, f.entry.Event.ID)
		}
		return settled
	})
	return nil
}

// Given implements [federation.Feeds].
func (m *Memory) Given(ctx context.Context, link string, since time.Time, limit int) ([]federation.Given, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var done []federation.Given
	for _, s := range m.settled {
		if s.link == link && !s.how.Refused && !s.how.At.Before(since) {
			d := federation.Delivery{Row: s.row.row, Entry: s.row.entry, View: m.views[s.row.entry.Event.Handoff]}
			done = append(done, federation.Given{Delivery: d, At: s.how.At})
		}
	}
	slices.SortStableFunc(done, func(a, b federation.Given) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Row, b.Row))
	})
	return done[:min(max(limit, 0), len(done))], nil
}

// show notes that the people of a link have been shown a step.
func (m *Memory) show(link string, id federation.EventID) {
	for did, inbox := range m.inboxes {
		for i, row := range inbox {
			inbox[i].read = row.read || m.bindings[did].Link == link && row.entry.Event.ID == id
		}
	}
}

// Binding implements [federation.Bindings].
func (m *Memory) Binding(ctx context.Context, did federation.DID) (federation.Binding, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Binding{}, err
	}
	b, ok := m.bindings[did]
	if !ok {
		return federation.Binding{}, federation.ErrNotFound
	}
	return b, nil
}

// BindingByHash implements [federation.Bindings].
func (m *Memory) BindingByHash(ctx context.Context, prefix string) (federation.Binding, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Binding{}, err
	}
	var found []federation.Binding
	for did, b := range m.bindings {
		if len(prefix) >= 10 && strings.HasPrefix(did.Hash(), prefix) {
			found = append(found, b)
		}
	}
	if len(found) != 1 {
		return federation.Binding{}, federation.ErrNotFound
	}
	return found[0], nil
}

// KeyOwner implements [federation.Bindings].
func (m *Memory) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return "", err
	}
	did, ok := m.owners[keyID]
	if !ok {
		return "", federation.ErrNotFound
	}
	return did, nil
}
