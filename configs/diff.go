package configs

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Change is a key with different values in two versions of a file.
type Change struct {
	Key    string // such as "limits.max_deadline", or "irc.spanningtree[lab].address"
	Before string // as TOML; "" if the older version has no such key
	After  string // as TOML; "" if the newer version has no such key
	Line   int    // line in the newer version; 0 for a missing key
}

// Diff returns the keys whose values differ from an older version of the file, in order. A table in
// a list is identified by its name, or otherwise by its position.
func (f *File) Diff(old *File) []Change {
	before, after := leaves{}, leaves{}
	before.add("", "", old.tables)
	after.add("", "", f.tables)
	keys := map[string]bool{}
	for key := range before {
		keys[key] = true
	}
	for key := range after {
		keys[key] = true
	}
	var changes []Change
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if was, is := before[key], after[key]; was.text != is.text {
			changes = append(changes, Change{Key: key, Before: was.text, After: is.text, Line: f.Line(is.path)})
		}
	}
	return changes
}

type leaf struct {
	text string
	path string // as in lineIndex
}

type leaves map[string]leaf

// The name is for people; the path has positions instead of names.
func (l leaves) add(name, path string, table map[string]any) {
	for key, value := range table {
		name, path := keyPath(name, key), keyPath(path, key)
		if inner, isTable := value.(map[string]any); isTable {
			l.add(name, path, inner)
			continue
		}
		items := tablesIn(value)
		if items == nil {
			l[name] = leaf{valueText(value), path}
			continue
		}
		for i, item := range items {
			l.add(name+"["+itemName(items, i)+"]", itemPath(path, i), item)
		}
	}
}

func tablesIn(value any) []map[string]any {
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice || list.Len() == 0 {
		return nil
	}
	var tables []map[string]any
	for i := range list.Len() {
		table, ok := reflect.TypeAssert[map[string]any](list.Index(i))
		if !ok {
			return nil
		}
		tables = append(tables, table)
	}
	return tables
}

func itemName(items []map[string]any, i int) string {
	name, named := items[i]["name"].(string)
	for j, other := range items {
		if j != i && other["name"] == items[i]["name"] {
			named = false
		}
	}
	if !named {
		return strconv.Itoa(i)
	}
	return name
}

func valueText(value any) string {
	if text, isText := value.(string); isText {
		return strconv.Quote(text)
	}
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return fmt.Sprint(value)
	}
	items := make([]string, list.Len())
	for i := range items {
		items[i] = valueText(list.Index(i).Interface())
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// Effect is how a changed key takes effect in a running gateway.
type Effect string

// The effects of changed keys.
const (
	Applied   Effect = "applied"   // at once
	Reconnect Effect = "reconnect" // the link of its table reconnects
	Restart   Effect = "restart"   // with the next start
)

// Effect returns how the change takes effect.
func (c Change) Effect() Effect {
	table, _, _ := strings.Cut(c.Key, ".")
	table, _, _ = strings.Cut(table, "[")
	switch {
	case c.Key == "tls.cert_file", c.Key == "tls.key_file":
		return Applied
	case c.Key == "log.format", slices.Contains([]string{
		"home", "http", "tls", "admin", "fetch", "identity", "keys", "store", "relay", "airc", "rest", "mcp", "a2a", "webhooks", "agents", "metrics",
	}, table):
		return Restart
	case slices.Contains([]string{"policy", "limits", "retention", "log", "bindings"}, table):
		return Applied
	}
	return Reconnect
}

// Changes returns the changes to a running gateway by a new version of the file, in the order of
// the lines. A key that needs a restart is compared with the version at the start of the gateway,
// and any other key with the last one.
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
