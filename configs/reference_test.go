package configs_test

import (
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/configs"
)

// uncommented is the reference file with its examples in force.
func uncommented() string {
	return regexp.MustCompile(`(?m)^#([a-z\[])`).ReplaceAllString(configs.Reference(), "$1")
}

func keysOf(table any) []string {
	var keys []string
	for field := range reflect.TypeOf(table).Fields() {
		if key := field.Tag.Get("toml"); key != "" { // else it is a list of tables
			keys = append(keys, key)
		}
	}
	return keys
}

func TestReferenceHasEveryDefault(t *testing.T) {
	file, err := configs.Parse("baton.toml", uncommented())
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Default()
	want.Home.Name = "gw.example"
	if diff := cmp.Diff(want, file.Config, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	var bound configs.Binding
	for _, table := range file.Tables("bindings") {
		table.Decode(&bound)
	}
	if want := (configs.Binding{Network: "lab", Name: "alice", DID: "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"}); bound != want {
		t.Errorf("the example of a binding is %+v, want %+v", bound, want)
	}
	peer := configs.Peer{}
	for _, table := range file.Tables("peers") {
		table.Decode(&peer)
	}
	if want := (configs.Peer{Name: "b.example", DID: "did:web:b.example", URL: "https://b.example", Path: "relay", Mode: "allow"}); peer != want {
		t.Errorf("the example of a peer is %+v, want %+v", peer, want)
	}
	hub := configs.Hub{}
	file.Table("relay.hub").Decode(&hub)
	if diff := cmp.Diff(configs.Hub{URLs: []string{}}, hub); diff != "" {
		t.Error(diff)
	}
	if err := file.Err(); err != nil {
		t.Error(err)
	}
	lines := configs.IndexLines(uncommented())
	for table, config := range map[string]any{
		"home": want.Home, "http": want.HTTP, "tls": want.TLS, "tls.acme": want.ACME, "admin": want.Admin, "fetch": want.Fetch,
		"identity": want.Identity, "keys": want.Keys,
		"store": want.Store, "policy": want.Policy, "limits": want.Limits,
		"retention": want.Retention, "log": want.Log, "metrics": want.Metrics,
		"bindings[0]": bound, "peers[0]": peer, "relay": want.Relay, "relay.hub": hub, "policy.rules[0]": configs.Rule{},
	} {
		for _, key := range keysOf(config) {
			if lines[table+"."+key] == 0 {
				t.Errorf("%s.%s is not in the reference", table, key)
			}
		}
	}
}

func TestReferenceIsValid(t *testing.T) {
	file, err := configs.Parse("baton.toml", configs.Reference())
	if err != nil {
		t.Fatal(err)
	}
	hub := configs.Hub{}
	file.Table("relay.hub").Decode(&hub)
	if err := file.Err(); err != nil {
		t.Error(err)
	}
}

func TestReferenceHasTheNetworksInOrder(t *testing.T) {
	text := configs.Reference("[a]\n", "[b]\n")
	if !strings.Contains(text, "\n\n[a]\n\n[b]\n\n# ") || strings.Contains(text, "#%") {
		t.Errorf("the reference is\n%s", text)
	}
}
