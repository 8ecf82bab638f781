package configs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/configs"
)

func TestEffectComparesRestartKeysWithTheStart(t *testing.T) {
	t.Parallel()
	started := parsed(t, "[home]\nname = \"a.example\"\n[limits]\nmax_hops = 2\n")
	last := parsed(t, "[home]\nname = \"b.example\"\n[limits]\nmax_hops = 3\n[[irc.freeq]]\nname = \"lab\"\n")
	now := parsed(t, "[limits]\nmax_hops = 4\n[[irc.freeq]]\nname = \"lab\"\n[home]\nname = \"b.example\"\n")
	got := map[string]configs.Effect{}
	for _, change := range now.Changes(started, last) {
		got[change.Key+" "+change.Before+" "+change.After] = change.Effect()
	}
	want := map[string]configs.Effect{
		"limits.max_hops 3 4":               configs.Applied,
		`home.name "a.example" "b.example"`: configs.Restart,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Changes (-want +got):\n%s", diff)
	}
}

func TestEffectOfALinkTableIsAReconnection(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]configs.Effect{
		"irc.freeq[lab].address": configs.Reconnect, "peers[b.example].url": configs.Reconnect,
		"log.format": configs.Restart, "log.level": configs.Applied, "bindings[0].did": configs.Applied,
	} {
		if got := (configs.Change{Key: key}).Effect(); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
