package main_test

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"baton/bridge/airc"
	"baton/bridge/irc/freeq"
	"baton/bridge/irc/spanningtree"
	"baton/configs"
)

// tableOf returns the members of a network's table by their keys.
func tableOf(config any) map[string]any {
	members := map[string]any{}
	value := reflect.ValueOf(config)
	for field, member := range value.Fields() {
		if key := field.Tag.Get("toml"); key != "" { // else it is a list of tables
			members[key] = member.Interface()
		}
	}
	return members
}

// A network owns its table, and the reference file is written by hand elsewhere:
// nothing but this holds the two together.
func TestTheReferenceHasTheDefaultOfEveryKeyOfANetwork(t *testing.T) {
	var reference struct {
		IRC struct {
			Spanningtree []toml.Primitive
			Freeq        []toml.Primitive
		}
		AIRC toml.Primitive
	}
	examplesInForce := regexp.MustCompile(`(?m)^#([a-z\[])`).ReplaceAllString(configs.Reference, "$1")
	md, err := toml.Decode(examplesInForce, &reference)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := len(reference.IRC.Spanningtree), len(reference.IRC.Freeq); a != 1 || b != 1 {
		t.Fatalf("the reference has %d tables irc.spanningtree and %d irc.freeq, want 1", a, b)
	}
	var inner struct{ OIDC, MTLS toml.Primitive }
	if err := md.PrimitiveDecode(reference.AIRC, &inner); err != nil {
		t.Fatal(err)
	}
	for _, network := range []struct {
		name     string
		table    toml.Primitive
		config   any // what the table is decoded into
		defaults any
	}{
		{"irc.spanningtree", reference.IRC.Spanningtree[0], &spanningtree.Config{}, spanningtree.DefaultConfig()},
		{"irc.freeq", reference.IRC.Freeq[0], &freeq.Config{}, freeq.DefaultConfig()},
		{"airc", reference.AIRC, &airc.Config{}, airc.DefaultConfig()},
		{"airc.oidc", inner.OIDC, &airc.OIDCConfig{}, airc.OIDCConfig{}},
		{"airc.mtls", inner.MTLS, &airc.MTLSConfig{}, airc.MTLSConfig{}},
	} {
		t.Run(network.name, func(t *testing.T) {
			var keys map[string]any
			if err := md.PrimitiveDecode(network.table, &keys); err != nil {
				t.Fatal(err)
			}
			delete(keys, "peers") // a list of tables
			delete(keys, "oidc")  // a table of its own, as is
			delete(keys, "mtls")
			defaults := tableOf(network.defaults)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(defaults)), slices.Sorted(maps.Keys(keys))); diff != "" {
				t.Fatalf("keys (-code +reference):\n%s", diff)
			}
			if err := md.PrimitiveDecode(network.table, network.config); err != nil {
				t.Fatal(err)
			}
			for key, shown := range tableOf(reflect.ValueOf(network.config).Elem().Interface()) {
				want := defaults[key]
				if reflect.ValueOf(want).IsZero() && reflect.TypeOf(want).Kind() != reflect.Bool && !reflect.DeepEqual(shown, want) {
					continue // required: the reference shows an example
				}
				if diff := cmp.Diff(want, shown); diff != "" {
					t.Errorf("%s (-default +shown):\n%s", key, diff)
				}
			}
		})
	}
}
