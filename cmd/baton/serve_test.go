package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// deadLink is a table for a network that does not answer, with its secrets.
func deadLink(t *testing.T, h *house) string {
	t.Helper()
	h.keep(t, "lab.send", "planted-send-secret")
	h.keep(t, "lab.recv", "planted-recv-secret")
	return `[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = "` + federationtest.FreeAddr(t) + `"
sid = "9GW"
send_password_file = "lab.send"
recv_password_file = "lab.recv"
channels = ["#ops"]
`
}

func TestServePrintsOneLineForEachMistake(t *testing.T) {
	h := newHouse(t, "[store]\ndriver = \"oracle\"\n[limits]\nclock_skew = \"soon\"\n[[irc.spanningtree]]\nname = \"lab\"\nsid = \"9gw\"\n")
	h.launch(t)
	if code := h.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	shape := regexp.MustCompile(`^` + regexp.QuoteMeta(h.config) + `:\d+: ([a-z_.]+): .+\n$`)
	var keys []string
	for line := range strings.Lines(h.told(t)) {
		parts := shape.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("%q is not FILE:LINE: TABLE.KEY: why", line)
		}
		keys = append(keys, parts[1])
	}
	want := []string{
		"store.driver", "limits.clock_skew", "irc.spanningtree.address", "irc.spanningtree.channels",
		"irc.spanningtree.recv_password_file", "irc.spanningtree.send_password_file", "irc.spanningtree.server_name", "irc.spanningtree.sid",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
	if entries, err := os.ReadDir(filepath.Join(h.dir, "data")); err != nil || len(entries) > 0 {
		t.Errorf("the start that failed left %v, %v", entries, err)
	}
}

func TestServePrintsOneLineForATakenPort(t *testing.T) {
	t.Parallel()
	first := newHouse(t)
	first.start(t)
	second := newHouse(t)
	second.public = first.public
	second.configure(t)
	second.launch(t)
	if code := second.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	lines := slices.Collect(strings.Lines(second.told(t)))
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `"msg":"baton starts"`) })
	want := []string{"baton: serve: listen " + first.public + ": address already in use: stop the other program or choose another port\n"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
}

func TestServeNeedsNoReachableNetwork(t *testing.T) {
	h := newHouse(t)
	h.configure(t, deadLink(t, h))
	h.start(t)
	await(t, "all but the network to be up", func() bool {
		status, body := h.ask(t, "/readyz")
		var answer struct{ Reasons []string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusServiceUnavailable {
			t.Fatalf("/readyz answers %d, %s", status, body)
		}
		return slices.Equal(answer.Reasons, []string{"link lab: down"})
	})
	if status, _ := h.ask(t, "/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d", status)
	}
	agent := bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))
	if err := agent.Register(t.Context()); err != nil {
		t.Error(err)
	}
	if up := h.counters(t)[`baton_link_up{link="lab",network="spanningtree"}`]; up != 0 {
		t.Errorf("baton_link_up is %v, want 0", up)
	}
	await(t, "the log to say why", func() bool { return strings.Contains(h.told(t), `"msg":"link down"`) })
	if code := h.stop(t); code != 0 {
		t.Errorf("exit code after SIGTERM %d, want 0", code)
	}
}

func TestServeAnswersBegunRequestsAtShutdown(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.public)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = `{"handle":"scout_7"}`
	fmt.Fprintf(conn, "POST /register/challenge HTTP/1.1\r\nHost: gw.test\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	reader := bufio.NewReader(conn)
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} { // now the handler waits for the body
		if got, err := reader.ReadString('\n'); err != nil || got != want {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
	}
	h.signal(t, syscall.SIGTERM)
	await(t, "the listener to close", func() bool { status, _ := get(t, h.url()+"/"); return status == 0 })
	fmt.Fprint(conn, body)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("answered %d, want 200", response.StatusCode)
	}
	if code := h.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestServeKeepsFilesPrivate(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	var open []string
	err := filepath.WalkDir(filepath.Join(h.dir, "data"), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			open = append(open, path)
		}
		return err
	})
	if err != nil || len(open) > 0 {
		t.Errorf("others may read %v, %v", open, err)
	}
}

func TestReloadOfAnInvalidConfigurationChangesNothing(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	if err := os.WriteFile(h.config, []byte("[home]\nname = \"gw.test\"\n[limits]\nclock_skew = \"soon\"\n[log]\nlevel = \"error\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.signal(t, syscall.SIGHUP)
	await(t, "the log to name the mistake", func() bool { return strings.Contains(h.told(t), h.config+":4: limits.clock_skew") })
	h.configure(t)
	h.signal(t, syscall.SIGHUP)
	await(t, "the log to say that it was read", func() bool { return strings.Contains(h.told(t), "configuration reloaded") })
	if status, _ := h.ask(t, "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz answers %d", status)
	}
}

func TestReloadDuringTheStartFollowsIt(t *testing.T) {
	h := newHouse(t)
	h.launch(t)
	await(t, "the first line", func() bool { return strings.Contains(h.told(t), `"msg":"baton starts"`) })
	h.signal(t, syscall.SIGHUP)
	await(t, "the log to say that it was read", func() bool { return strings.Contains(h.told(t), "configuration reloaded") || h.gone() })
	if h.gone() {
		t.Errorf("the gateway ended: %v", h.process.ProcessState)
	}
}

func TestReloadNamesKeysThatNeedARestart(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	h.configure(t, "[metrics]\nenabled = false\n[airc]\noffers = \"deliver\"\n")
	h.signal(t, syscall.SIGHUP)
	await(t, "the log to say that it was read", func() bool { return strings.Contains(h.told(t), "configuration reloaded") })
	var named []any
	for _, line := range h.logged(t) {
		if line["msg"] == "restart needed" {
			named = append(named, line["key"])
		}
	}
	if diff := cmp.Diff([]any{"metrics.enabled", "airc.offers"}, named); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	h.counters(t) // which are still there
}

func TestTokensSurviveARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	agent := bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))
	if err := agent.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.secrets = append(h.secrets, agent.Token)
	h.kill(t)
	h.start(t)
	if _, _, err := agent.Inbox(t.Context(), ""); err != nil {
		t.Error(err)
	}
}
