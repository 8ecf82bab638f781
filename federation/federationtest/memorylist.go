package federationtest

import (
	"context"
	"slices"
	"strings"

	"baton/federation"
)

// Handoffs implements [Handoffs].
func (m *Memory) Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) (views []federation.View, next federation.Cursor, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, "", err
	}
	var all []federation.View
	for _, v := range m.views {
		if f.Admits(v) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b federation.View) int { return strings.Compare(movement(b), movement(a)) })
	if after != "" {
		if !strings.HasPrefix(string(after), "moved ") {
			return nil, "", federation.ErrUnknownCursor
		}
		all = slices.DeleteFunc(all, func(v federation.View) bool { return movement(v) >= string(after) })
	}
	views = all[:min(max(limit, 0), len(all))]
	switch {
	case len(views) == len(all):
	case len(views) == 0:
		next = after
	default:
		next = federation.Cursor(movement(views[len(views)-1]))
	}
	return views, next, nil
}

// movement orders handoffs by when they moved, and is the cursor after one.
func movement(v federation.View) string {
	return "moved " + v.Moved.UTC().Format("2006-01-02T15:04:05.000000000") + " " + v.ID.String()
}

// Find implements [Handoffs].
func (m *Memory) Find(ctx context.Context, suffix string) ([]federation.HandoffID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.HandoffID
	for id := range m.views {
		if len(suffix) >= federation.MinSuffix && strings.HasSuffix(id.String(), suffix) {
			found = append(found, id)
		}
	}
	slices.SortFunc(found, func(a, b federation.HandoffID) int { return strings.Compare(a.String(), b.String()) })
	return found[:min(federation.MaxFound, len(found))], nil
}
