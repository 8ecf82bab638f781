package configs_test

import (
	"net/netip"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/bridge/airc"
	"baton/bridge/irc/client"
	"baton/bridge/irc/freeq"
	"baton/bridge/irc/spanningtree"
	"baton/configs"
)

// uncommented is the reference file with its examples in force.
func uncommented() string {
	return regexp.MustCompile(`(?m)^#([a-z\[])`).ReplaceAllString(configs.Reference, "$1")
}

// keysOf returns the keys of a table's struct.
func keysOf(table any) []string {
	var keys []string
	for field := range reflect.TypeOf(table).Fields() {
		if key := field.Tag.Get("toml"); key != "" { // else it is a list of tables
			keys = append(keys, key)
		}
	}
	return keys
}

func TestTheReferenceHasTheDefaultOfEveryKey(t *testing.T) {
	file, err := configs.Parse("baton.toml", uncommented())
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Default()
	want.Home.Name = "gw.example"
	if diff := cmp.Diff(want, file.Config, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	link, registry := spanningtree.DefaultConfig(), airc.DefaultConfig()
	for _, table := range file.Tables("irc.spanningtree") {
		table.Decode(&link)
	}
	table, peers := file.Table("airc").Split("peers")
	table.Inner("oidc").Decode(&registry.OIDC)
	table.Inner("mtls").Decode(&registry.MTLS)
	table.Decode(&registry)
	for _, table := range peers {
		peer := airc.PeerConfig{}
		table.Decode(&peer)
		if diff := cmp.Diff(airc.PeerConfig{Domain: "peer.example", Mode: "allow", Dialect: "auto", Unsigned: "hold"}, peer); diff != "" || len(peers) != 1 {
			t.Errorf("%d peers: %s", len(peers), diff)
		}
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
	server, wantServer := freeq.DefaultConfig(), freeq.DefaultConfig()
	for _, table := range file.Tables("irc.freeq") {
		table.Decode(&server)
	}
	wantServer.Name, wantServer.ServerName, wantServer.PeerAPI = "freeq", "irc.freeq.example", "https://irc.freeq.example"
	wantServer.EndpointID, wantServer.Channels = "a09aa5f47a6759802ff955f8dc2d2a14a5c99d23be97f864127ff9383455a4f0", []string{"#ops"}
	if diff := cmp.Diff(wantServer, server); diff != "" {
		t.Error(diff)
	}
	wantLink := spanningtree.DefaultConfig()
	wantLink.Name, wantLink.ServerName, wantLink.Address = "lab", "irc.lab.example", "127.0.0.1:7000"
	wantLink.SID, wantLink.SendPasswordFile, wantLink.RecvPasswordFile = "9GW", "lab.send", "lab.recv"
	wantLink.Channels = []string{"#ops"}
	if diff := cmp.Diff(wantLink, link); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(airc.DefaultConfig(), registry); diff != "" {
		t.Error(diff)
	}
	listener := client.DefaultConfig()
	file.Table("irc.client").Decode(&listener)
	if diff := cmp.Diff(client.DefaultConfig(), listener); diff != "" {
		t.Error(diff)
	}
	if err := file.Err(); err != nil {
		t.Error(err)
	}
	lines := configs.IndexLines(uncommented())
	for table, config := range map[string]any{
		"home": want.Home, "http": want.HTTP, "tls": want.TLS, "admin": want.Admin, "fetch": want.Fetch,
		"identity": want.Identity, "keys": want.Keys,
		"store": want.Store, "rest": want.REST, "policy": want.Policy, "limits": want.Limits,
		"retention": want.Retention, "log": want.Log, "metrics": want.Metrics,
		"irc.spanningtree[0]": link, "irc.freeq[0]": server, "irc.client": listener, "airc": registry, "airc.peers[0]": airc.PeerConfig{}, "bindings[0]": bound, "peers[0]": peer, "relay": want.Relay, "relay.hub": hub,
		"airc.oidc": airc.OIDCConfig{}, "airc.mtls": airc.MTLSConfig{},
		"policy.rules[0]": configs.Rule{},
	} {
		for _, key := range keysOf(config) {
			if lines[table+"."+key] == 0 {
				t.Errorf("%s.%s is not in the reference", table, key)
			}
		}
	}
}

func TestTheReferenceIsValidAsItStands(t *testing.T) {
	file, err := configs.Parse("baton.toml", configs.Reference)
	if err != nil {
		t.Fatal(err)
	}
	registry := airc.DefaultConfig()
	table := file.Table("airc")
	table.Inner("oidc").Decode(&registry.OIDC)
	table.Inner("mtls").Decode(&registry.MTLS)
	table.Decode(&registry)
	listener := client.DefaultConfig()
	file.Table("irc.client").Decode(&listener)
	hub := configs.Hub{}
	file.Table("relay.hub").Decode(&hub)
	if links := file.Tables("irc.spanningtree"); len(links) != 0 {
		t.Errorf("got %d links, want none", len(links))
	}
	if err := file.Err(); err != nil {
		t.Error(err)
	}
}
