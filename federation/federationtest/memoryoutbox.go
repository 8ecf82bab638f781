package federationtest

import (
	"context"
	"fmt"
	"strings"

	"baton/federation"
)

// Replay implements [Inboxes].
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
			entries = append(entries, m.at(row, to))
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

// at is [inboxRow.at], with the current state of the handoff.
func (m *Memory) at(r inboxRow, of federation.DID) federation.Entry {
	entry := r.at(of)
	entry.Now = m.views[entry.Event.Handoff].State
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

// Waiting implements [Inboxes].
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

// Use implements [Inboxes].
func (m *Memory) Use(ctx context.Context, to, from federation.DID) (federation.InboxUse, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.InboxUse{}, err
	}
	return m.use(to, from), nil
}

func (m *Memory) use(to, from federation.DID) (u federation.InboxUse) {
	for _, row := range m.inboxes[to] {
		if row.read {
			continue
		}
		size := int64(len(row.entry.Event.Signature.Document))
		u.Entries++
		u.Bytes += size
		if row.entry.Event.From == from {
			u.SenderEntries++
			u.SenderBytes += size
		}
	}
	return u
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

// Binding implements [Bindings].
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

// BindingByHash implements [Bindings].
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

// KeyOwner implements [Bindings].
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
