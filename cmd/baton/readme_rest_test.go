//go:build interop

package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/bridge/bridgetest"
)

// plainHTTP returns the session of the README over plain HTTP.
func plainHTTP(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Over plain HTTP\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 1 {
		t.Fatalf("the section has %d blocks", len(blocks))
	}
	return blocks[0][1]
}

func TestWhatTheReadmeSaysOfPlainHTTPWorks(t *testing.T) {
	t.Parallel()
	conf, table, serve, _, _ := tryIt(t)
	p := publish(t, conf, table, serve)
	watcher := (&network{InspIRCd: &bridgetest.InspIRCd{ClientAddr: p.clients}}).join(t, "watcher", "message-tags")
	out := p.shell(t, plainHTTP(t))
	for _, want := range []string{`"title":"Cite three sources on X"`, `"verb":"accept"`, `"state":"completed"`, "event: step\ndata: {", `"note":"three found"`, `"provenance":"vouched"`} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %s:\n%s", want, out)
		}
	}
	for _, verb := range []string{"offer", "accept", "complete"} {
		m := next(t, watcher, verb, func(m bridgetest.IRCMessage) bool { return m.Tags[vendor+"handoff"] == verb })
		if err := verify(m.Tags, channel); err != nil {
			t.Errorf("%s on IRC: %v", verb, err)
		}
	}
	passport, err := p.command(t, "handoff", "verify", filepath.Join(p.dir, "passport.json")).CombinedOutput()
	if err != nil || !strings.Contains(string(passport), `"verdict":"valid"`) {
		t.Errorf("the passport is %q, %v", passport, err)
	}
}
