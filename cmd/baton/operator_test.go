package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// command returns a command that asks the gateway of a house.
func (h *house) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--config", h.config, "--json"}, args...)...)
	return cmd
}

// plain is [house.command] with output for people.
func (h *house) plain(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), program, append([]string{"--config", h.config}, args...)...)
}

// asks runs a command that must succeed, and reads its answer.
func (h *house) asks(t *testing.T, into any, args ...string) {
	t.Helper()
	out, err := h.command(t, args...).Output()
	if err != nil {
		t.Fatalf("baton %v: %v", args, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("baton %v prints %q: %v", args, out, err)
	}
}

// village is a gateway between an IRC server inside the test and an agent.
type village struct {
	*house

	ircd  *bridgetest.IRCd
	scout *bridgetest.Agent
}

const ann = "did:plc:annannannannannannannann" // bound with vouch

func newVillage(t *testing.T) *village {
	t.Helper()
	h := newHouse(t)
	h.keep(t, "lab.secret", "planted-secret")
	ircd, err := bridgetest.ListenIRCd(t.Context(), bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-secret", RecvPassword: "planted-secret",
		Users: []string{"alice"}, Channels: []string{"#ops"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ircd.Close)
	h.configure(t, fmt.Sprintf(`[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = %q
sid = "9GW"
send_password_file = "lab.secret"
recv_password_file = "lab.secret"
channels = ["#ops"]
[[bindings]]
network = "lab"
name = "ann"
did = %q
vouch = true
`, ircd.Addr(), ann))
	h.start(t)
	h.ready(t)
	scout := bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))
	if err := scout.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.secrets = append(h.secrets, scout.Token)
	return &village{house: h, ircd: ircd, scout: scout}
}

// sees waits until the IRC server was sent a message.
func (v *village) sees(t *testing.T, what string, match func(bridgetest.IRCMessage) bool) bridgetest.IRCMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := v.ircd.Next(ctx, match)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return m
}

func isStep(verb, id string) func(bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags["+freeq.at/handoff"] == verb && m.Tags["+freeq.at/handoff-id"] == id
	}
}

// reads waits until the agent was handed a message of a type.
func (v *village) reads(t *testing.T, kind string) (id, from string) {
	t.Helper()
	cursor := ""
	await(t, "a "+kind, func() bool {
		messages, next, err := v.scout.Inbox(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		cursor = next
		for _, text := range messages {
			var m struct {
				ID, From string
				Payload  struct {
					Type string
					Data struct{ Requester string }
				}
			}
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			if m.Payload.Type == kind {
				id, from = m.ID, m.From
			}
			if m.Payload.Type == kind && kind == "system:handshake_request" {
				from = m.Payload.Data.Requester
			}
		}
		return id != ""
	})
	return id, from
}

// shownHandoff is as much of "handoff show --json" as the tests look at.
type shownHandoff struct {
	State, Assignee string
	Steps           []struct {
		Verb, Provenance, For string
		Delivered             []struct{ To, Via, State, Time string }
	}
}

func TestOperatorStepsAreLikeThoseOfAnyNetwork(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	var filed struct{ ID, State string }
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--to", v.scout.DID, "--channel", "#ops", "--title", "Cite three sources")
	offer := v.sees(t, "the offer in the channel", isStep("offer", filed.ID))
	if got := offer.Tags["+freeq.at/handoff-for"]; got != ann {
		t.Errorf("the offer stands for %q, want %s", got, ann)
	}
	_, requester := v.reads(t, "system:handshake_request")
	if status, answer, err := v.scout.Consent(t.Context(), requester, "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("consent: %d, %v, %v", status, answer, err)
	}
	request, from := v.reads(t, "task:request")
	answer := map[string]any{"type": "ack", "data": map[string]any{"replyTo": request, "status": "received"}}
	if status, got, err := v.scout.Send(t.Context(), from, "on it", answer); err != nil || status != http.StatusCreated {
		t.Fatalf("accept: %d, %v, %v", status, got, err)
	}
	v.sees(t, "the answer in the channel", isStep("accept", filed.ID))
	v.asks(t, &filed, "handoff", "complete", filed.ID, "--from", v.scout.DID, "--note", "done for it")
	v.sees(t, "the end in the channel", isStep("complete", filed.ID))
	v.ircd.Connect("ann") // the steps wait for ann
	v.ircd.Send(":1LA METADATA " + v.ircd.UUID("ann") + " accountname :ann")

	var shown shownHandoff
	await(t, "all to be delivered", func() bool {
		shown = shownHandoff{}
		v.asks(t, &shown, "handoff", "show", filed.ID)
		for _, s := range shown.Steps {
			for _, d := range s.Delivered {
				if d.State != "delivered" {
					return false
				}
			}
		}
		return true
	})
	if shown.State != "completed" || shown.Assignee != v.scout.DID || len(shown.Steps) != 3 {
		t.Fatalf("the handoff is %+v", shown)
	}
	first := shown.Steps[0]
	if first.For != ann || first.Provenance != "vouched" || len(first.Delivered) != 2 {
		t.Fatalf("the offer is %+v", first)
	}
	if d := first.Delivered[0]; d.Via != "airc" || d.To != "scout_7" || d.Time == "" {
		t.Errorf("the offer was delivered %+v, want to scout_7 over airc", d)
	}
	if d := first.Delivered[1]; d.Via != "lab" || d.To != "#ops" || d.Time == "" {
		t.Errorf("the offer was delivered %+v, want to #ops on lab", d)
	}
}

// startReading starts a command that goes on, and returns the lines that it prints.
func startReading(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(pipe)
}

func TestShutdownWaitsForNoWatcher(t *testing.T) {
	v := newVillage(t)
	watch := v.command(t, "link", "list", "--watch")
	lines := startReading(t, watch)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"state":"up"`) {
		t.Fatalf("whoever watches reads %q, %v", lines.Text(), lines.Err())
	}
	polled := make(chan int, 1)
	go func() {
		status, _, _ := v.scout.Do(t.Context(), http.MethodGet, "/messages/inbox?wait=50", nil)
		polled <- status
	}()
	await(t, "the poll to be heard", func() bool {
		var link struct {
			LastHeard string `json:"last_heard"`
		}
		v.asks(t, &link, "link", "show", "airc")
		return link.LastHeard != ""
	})
	v.signal(t, syscall.SIGTERM)
	v.sees(t, "the goodbye", func(m bridgetest.IRCMessage) bool { return m.Command == "SQUIT" })
	if code := v.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if status := <-polled; status != http.StatusOK {
		t.Errorf("the poll was answered %d, want 200", status)
	}
	for lines.Scan() {
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("whoever watched ends with %v", err)
	}
	if _, err := os.Lstat(filepath.Join(v.dir, "data", "baton.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestSocketIsTakenOverOnlyFromADeadProcess(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.kill(t)
	h.start(t)
	h.ready(t)
	second := newHouse(t)
	socket := filepath.Join(h.dir, "data", "baton.sock")
	text, err := os.ReadFile(second.config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "[admin]\n", fmt.Sprintf("[admin]\nsocket = %q\n", socket), 1)
	if err := os.WriteFile(second.config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	second.launch(t)
	if code := second.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if told := "baton: serve: listen " + socket + ": address already in use: stop the other program or choose another path\n"; !strings.Contains(second.told(t), told) {
		t.Errorf("told %q, want %q", second.told(t), told)
	}
	h.asks(t, &struct{}{}, "link", "list")
}

func TestMetricsOfTheInterfaceExist(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	var filed struct{ ID string }
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--title", "Cite three sources")
	v.sees(t, "the offer", isStep("offer", filed.ID))
	if out, err := v.command(t, "handoff", "accept", filed.ID, "--from", ann).Output(); err == nil {
		t.Fatalf("an open offer was accepted: %s", out)
	}
	await(t, "the delivery to be counted", func() bool {
		return v.counters(t)[`baton_outcomes_total{network="spanningtree",outcome="delivered"}`] == 1
	})
	counters := v.counters(t)
	for series, want := range map[string]float64{
		`baton_events_total{network="operator",outcome="filed",verb="offer",verdict="valid"}`:    1,
		`baton_events_total{network="operator",outcome="refused",verb="accept",verdict="valid"}`: 1,
		`baton_refusals_total{code="ILLEGAL_STEP",network="operator"}`:                           1,
		`baton_deliver_seconds_count{network="spanningtree"}`:                                    1,
		`baton_link_up{link="lab",network="spanningtree"}`:                                       1,
		`baton_feed_rows{link="lab",network="spanningtree"}`:                                     0,
		`baton_feed_oldest_seconds{link="lab",network="spanningtree"}`:                           0,
		`baton_did_resolve_seconds_count{method="key",outcome="valid"}`:                          2,
		`baton_home_conflicts_total`:                                                             0,
	} {
		if got, ok := counters[series]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", series, got, ok, want)
		}
	}
	_, text := v.ask(t, "/metrics")
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	for _, name := range []string{"baton_link_heard_seconds", "baton_store_commit_seconds", "baton_store_batch_size", "baton_build_info"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(counters)), func(series string) bool { return strings.HasPrefix(series, name) }) {
			t.Errorf("there is no %s", name)
		}
	}
	if status, body := v.ask(t, "/debug/pprof/goroutine?debug=1"); status != http.StatusOK || !strings.Contains(body, "goroutine profile") {
		t.Errorf("pprof answers %d, %.60q", status, body)
	}
}
