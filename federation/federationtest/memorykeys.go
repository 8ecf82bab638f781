package federationtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// Learn implements [federation.Keys].
func (m *Memory) Learn(ctx context.Context, report federation.KeyReport) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	changed, err := report.Apply(m.windows[report.DID])
	if err != nil {
		return err
	}
	for _, w := range changed {
		m.putWindow(w)
	}
	return nil
}

// Revoke implements [federation.Keys].
func (m *Memory) Revoke(ctx context.Context, did federation.DID, keyID string, at time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.putWindow(federation.KeyWindow{DID: did, KeyID: keyID, Origin: federation.RevokedKey, Since: at, Seen: at})
	return nil
}

// History implements [federation.Keys].
func (m *Memory) History(ctx context.Context, did federation.DID) (federation.KeyHistory, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return slices.Clone(m.windows[did]), nil
}

// putWindow replaces a window, or adds one in its place.
func (m *Memory) putWindow(w federation.KeyWindow) {
	windows := m.windows[w.DID]
	order := func(a, b federation.KeyWindow) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.KeyID, b.KeyID),
			strings.Compare(string(a.Origin), string(b.Origin)), strings.Compare(a.Via, b.Via))
	}
	i, found := slices.BinarySearchFunc(windows, w, order)
	if found {
		windows[i] = w
	} else {
		windows = slices.Insert(windows, i, w)
	}
	m.windows[w.DID] = windows
	if w.Origin == federation.RevokedKey {
		m.endKeyUse([]string{string(w.DID)}, w.KeyID, w.Since, w.Seen)
	}
}
