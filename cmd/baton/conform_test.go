package main_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestConformPassesOverEachTransport(t *testing.T) {
	t.Parallel()
	irc := federationtest.FreeAddr(t)
	h := newHouse(t, fmt.Sprintf("[irc.client]\nlisten = %q\nwebsocket = true\n", irc), offersOverREST)
	h.start(t)
	h.ready(t)
	for _, suite := range []struct {
		address, name string
		cases         int
	}{
		{"irc://" + irc, "irc", 30},
		{"ws://" + h.public + "/irc", "irc", 30},
		{h.url(), "rest", 12},
		{h.url(), "airc", 18},
	} {
		address := suite.address
		text, err := exec.CommandContext(t.Context(), program, "conform", address, "--suite", suite.name, "--json").Output()
		var told struct {
			Items []struct {
				Section, Case, Why string
				Passed             bool
			}
			Totals map[string]int
		}
		if jsonErr := json.Unmarshal(text, &told); jsonErr != nil || len(told.Items) < suite.cases {
			t.Fatalf("%s: %q: %v, %v", address, text, err, jsonErr)
		}
		if told.Totals["cases"] != len(told.Items) || told.Totals["passed"]+told.Totals["failed"]+told.Totals["skipped"] != len(told.Items) {
			t.Errorf("%s: totals %v of %d cases", address, told.Totals, len(told.Items))
		}
		for _, item := range told.Items {
			if !item.Passed {
				t.Errorf("%s: %s: %s: %s", address, item.Section, item.Case, item.Why)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestConformExitsWithFourWithoutServer(t *testing.T) {
	t.Parallel()
	for suite, scheme := range map[string]string{"irc": "irc://", "rest": "http://", "airc": "http://"} {
		cmd := exec.CommandContext(t.Context(), program, "conform", scheme+federationtest.FreeAddr(t), "--suite", suite)
		text, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 4 || !strings.HasPrefix(string(text), "baton: conform: ") {
			t.Errorf("%s: exit code %d: %s", suite, code, text)
		}
	}
}
