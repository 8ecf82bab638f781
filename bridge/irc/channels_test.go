package irc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
)

func TestChannelsMapsNamesBothWays(t *testing.T) {
	c, err := irc.ParseChannels([]string{"#Ops", "#dev as #Agents"}, 64)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][2][]string{
		"here":    {c.Here(), {"#ops", "#dev"}},
		"there":   {c.There(), {"#ops", "#agents"}},
		"spelled": {c.Spelled(), {"#Ops", "#Agents"}},
	} {
		if diff := cmp.Diff(got[1], got[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for here, there := range map[string]string{"#ops": "#ops", "#dev": "#agents", "#agents": "#agents", "dm:a,b": "dm:a,b"} {
		if got := c.Out(here); got != there {
			t.Errorf("%s is %s there, want %s", here, got, there)
		}
	}
	for there, here := range map[string]string{"#ops": "#ops", "#agents": "#dev", "#dev": "", "dm:a,b": ""} {
		if got, ok := c.In(there); got != here || ok != (here != "") {
			t.Errorf("%s is %q here, want %q", there, got, here)
		}
	}
}

func TestChannelsRefusesOtherNames(t *testing.T) {
	long := "#" + strings.Repeat("x", 64)
	for _, entries := range [][]string{
		nil,
		{""},
		{"#"},
		{"ops"},
		{"#a b"},
		{"#a,b"},
		{"#a\x01"},
		{long},
		{"#a as " + long},
		{"#a as b"},
		{"as #b"},
		{"#a as #b as #c"},
		{"#a", "#A"},
		{"#a", "#b as #A"},
		{"#a as #b", "#a as #c"},
	} {
		if c, err := irc.ParseChannels(entries, 64); err == nil {
			t.Errorf("%q are taken for %q", entries, c.There())
		}
	}
	if _, err := irc.ParseChannels([]string{"#a as #b", "#b as #a"}, 64); err != nil {
		t.Errorf("two that change names: %v", err)
	}
}
