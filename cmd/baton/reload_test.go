//go:build interop

package main_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestReloadAddsALinkAndALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dev := newNetwork(t, w.house, "dev", "2DE")
	carol := dev.join(t, "carol", "message-tags")
	w.configure(t, w.net.table, dev.table, "[limits]\nmax_deadline = \"30m\"\n")
	w.signal(t, syscall.SIGHUP)
	await(t, "the new link", func() bool { return w.counters(t)[`baton_link_up{link="dev",network="spanningtree"}`] == 1 })

	far, farID := w.key.offer(channel, w.scout.DID, terms(time.Now().Add(time.Hour)))
	send(t, w.alice, far)
	next(t, w.alice, "the refusal", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && strings.HasPrefix(m.Params[1], "INVALID_TAG "+farID)
	})
	near, id := w.key.offer(channel, w.scout.DID, terms(time.Now().Add(time.Minute)))
	send(t, w.alice, near)
	m := nextStep(t, carol, "offer", id)
	tags := maps.Clone(m.Tags)
	delete(tags, "msgid")
	if diff := cmp.Diff(near, tags); diff != "" {
		t.Errorf("tags on another network (-signed +seen):\n%s", diff)
	}
	if m.Nick != "alice" {
		t.Errorf("it comes from %q, want alice", m.Nick)
	}
	if line := next(t, carol, "the line", isLine(id, "alice offers scout_7: ")); line.Nick != "alice" {
		t.Errorf("its line comes from %q, want alice", line.Nick)
	}
	if slices.ContainsFunc(w.alice.Received(), func(m bridgetest.IRCMessage) bool { return m.Command == "QUIT" }) {
		t.Error("the link that did not change was made anew")
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	w, cable := newWiredWorld(t)
	w.keep(t, "odd.send", "planted-wrong-send")
	w.keep(t, "odd.recv", "planted-wrong-recv")
	odd := strings.ReplaceAll(linkTable("odd", "lab.irc.test", w.net.LinkAddr), `"9GW"`, `"9GX"`)
	w.configure(t, w.net.table, odd)
	w.signal(t, syscall.SIGHUP)
	await(t, "the other link to fail", func() bool {
		return slices.ContainsFunc(w.logged(t), func(line map[string]any) bool { return line["msg"] == "link down" && line["link"] == "odd" })
	})
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	w.answer(t, s.replies()[0])

	stranger := bridgetest.NewAgent(w.url(), "stranger", make([]byte, 32))
	stranger.Token = "planted-token"
	w.secrets = append(w.secrets, stranger.Token)
	answers := []string{cable.said()}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		_, body := w.ask(t, path)
		answers = append(answers, body)
	}
	for _, agent := range []*bridgetest.Agent{w.scout, stranger} {
		for _, path := range []string{"/messages/inbox", "/identity/scout_7", "/.well-known/airc/registry.json", "/messages/inbox?cursor=" + agent.Token, "/" + "none"} {
			_, body, err := agent.Do(t.Context(), http.MethodGet, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, string(body))
		}
	}
	for _, m := range slices.Concat(w.alice.Received(), w.bob.Received()) {
		answers = append(answers, strings.Join(m.Params, " "))
	}
	for _, secret := range w.secrets {
		for _, answer := range answers {
			if strings.Contains(answer, secret) {
				t.Errorf("%q was told in %q", secret, answer)
			}
		}
	}
}
