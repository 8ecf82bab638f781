package configs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/configs"
)

func parsed(t *testing.T, text string) *configs.File {
	t.Helper()
	file, err := configs.Parse("baton.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDiffNamesEachChangedKeyWithItsLine(t *testing.T) {
	t.Parallel()
	before := parsed(t, `[home]
name = "gw.example"
[limits]
max_deadline = "720h"
[[irc.spanningtree]]
name = "lab"
address = "192.0.2.1:7000"
[[irc.spanningtree]]
name = "old"
channels = ["#a", "#b"]
[[bindings]]
link = "lab"
`)
	after := parsed(t, `[home]
name = "gw.example"
[limits]
max_deadline = "30m"
max_hops = 4
[[irc.spanningtree]]
name = "dev"
[[irc.spanningtree]]
name = "lab"
address = "192.0.2.2:7000"
[[bindings]]
link = "dev"
`)
	want := []configs.Change{
		{Key: "bindings[0].link", Before: `"lab"`, After: `"dev"`, Line: 12},
		{Key: "irc.spanningtree[dev].name", After: `"dev"`, Line: 7},
		{Key: "irc.spanningtree[lab].address", Before: `"192.0.2.1:7000"`, After: `"192.0.2.2:7000"`, Line: 10},
		{Key: "irc.spanningtree[old].channels", Before: `["#a", "#b"]`},
		{Key: "irc.spanningtree[old].name", Before: `"old"`},
		{Key: "limits.max_deadline", Before: `"720h"`, After: `"30m"`, Line: 4},
		{Key: "limits.max_hops", After: "4", Line: 5},
	}
	if diff := cmp.Diff(want, after.Diff(before)); diff != "" {
		t.Errorf("Diff (-want +got):\n%s", diff)
	}
	if changes := after.Diff(after); changes != nil {
		t.Errorf("a file differs from itself: %v", changes)
	}
}
