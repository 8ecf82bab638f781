//go:build interop

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// One gateway has the link of a network, and another one of the same home has the listener.
func TestPresenceCrossesReplicas(t *testing.T) {
	t.Parallel()
	dsn, hub := postgrestest.Start(t).Schema(t), startHub(t).ClientURL()
	shared := []string{
		"[relay]\nurls = [" + strconv.Quote(hub) + "]\nmax_bytes = 16777216\n", "[store]\ndriver = \"postgres\"\ndsn_file = \"dsn\"\n",
	}
	one, two := newHouse(t), newHouse(t)
	if err := os.Symlink(filepath.Join(two.dir, "data", "keys"), filepath.Join(one.dir, "data", "keys")); err != nil {
		t.Fatal(err)
	}
	listener := func(address string) string {
		return fmt.Sprintf("[irc.client]\nlisten = %q\nchannels = [%q]\n", address, channel) + relaying
	}
	address := federationtest.FreeAddr(t)
	two.keep(t, "dsn", dsn)
	two.configure(t, append(shared, listener(address))...)
	two.start(t)
	two.ready(t) // the listener is its own from now on
	lab, table := newIRCd(t, one, "lab", "1LA")
	one.keep(t, "dsn", dsn)
	one.configure(t, append(shared, listener(federationtest.FreeAddr(t)), table)...)
	one.start(t)
	if err := lab.Linked(patient(t)); err != nil {
		t.Fatal(err)
	}
	zoe, err := bridgetest.DialIRC(patient(t), address, "zoe", "message-tags", "away-notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(zoe.Close)
	if err := zoe.Join(patient(t), channel); err != nil {
		t.Fatal(err)
	}
	lab.Say("alice", "PRIVMSG "+channel+" :hello from lab")
	clientReads(t, zoe, "hello from lab")
	lab.Send(":" + lab.UUID("alice") + " AWAY 1 :at lunch")
	hears(t, zoe, "alice", "AWAY", "at lunch")
	lab.Rename("alice", "alicia")
	hears(t, zoe, "alice", "NICK", "alicia")
	lab.Quit("alicia")
	hears(t, zoe, "alicia", "QUIT", "")
}
