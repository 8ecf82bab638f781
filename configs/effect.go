package configs

import (
	"cmp"
	"slices"
	"strings"
)

// Effect says how a changed key takes effect where a running gateway reads its file again.
type Effect string

// The effects of changed keys.
const (
	Applied   Effect = "applied"   // at once
	Reconnect Effect = "reconnect" // the link of its table connects anew
	Restart   Effect = "restart"   // with the next start
)

// Effect returns how the change takes effect.
func (c Change) Effect() Effect {
	table, _, _ := strings.Cut(c.Key, ".")
	table, _, _ = strings.Cut(table, "[")
	switch {
	case c.Key == "log.format", slices.Contains([]string{
		"home", "http", "tls", "admin", "fetch", "identity", "keys", "store", "relay", "airc", "rest", "mcp", "a2a", "webhooks", "metrics",
	}, table):
		return Restart
	case slices.Contains([]string{"policy", "limits", "retention", "log", "bindings"}, table):
		return Applied
	}
	return Reconnect
}

// Changes returns what a reading of the file changes in a running gateway, in the order of the
// lines. A key that needs a restart is compared with the reading that the gateway started with, and
// any other key with the last one.
func (f *File) Changes(started, last *File) []Change {
	var changes []Change
	add := func(old *File, restart bool) {
		for _, change := range f.Diff(old) {
			if (change.Effect() == Restart) == restart {
				changes = append(changes, change)
			}
		}
	}
	add(last, false)
	add(started, true)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Line, b.Line) })
	return changes
}
