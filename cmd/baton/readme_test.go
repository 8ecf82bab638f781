//go:build interop

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"baton/bridge/bridgetest"
	"baton/federation/federationtest"
)

// tryIt returns the blocks of code of the section of the README with that name, in
// order.
func tryIt(t *testing.T) (conf, table, serve, fromIRC, fromAIRC string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Try it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(section, -1)
	var kinds, texts []string
	for _, block := range blocks {
		kinds, texts = append(kinds, block[1]), append(texts, block[2])
	}
	if got := strings.Join(kinds, " "); got != "conf toml sh sh sh" {
		t.Fatalf("the section has the blocks %q", got)
	}
	return texts[0], texts[1], texts[2], texts[3], texts[4]
}

// startPublished runs an InspIRCd with a published part of its configuration.
func startPublished(t *testing.T, dir, clients, servers, published string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(clients)
	text := fmt.Sprintf(`<server name="irc.example.org" description="test" network="Test" id="1LA">
<admin name="a" nick="a" email="a@test.example">
<bind address="127.0.0.1" port=%q type="clients">
<connect allow="*" useident="no" resolvehostnames="no">
<dns server="127.0.0.1" timeout="1">
`, port) + published
	path := filepath.Join(dir, "inspircd.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/usr/sbin/inspircd", "--config", path, "--nofork", "--nopid", "--nolog", "--runasroot")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	await(t, "InspIRCd to listen", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", servers)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// published is a gateway and a network that were set up as the README says, on other
// ports.
type published struct {
	*house
	clients string
	ports   *strings.Replacer
}

// shell runs a block as it stands, but for its addresses.
func (p *published) shell(t *testing.T, block string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", p.ports.Replace(block))
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s%v", block, out, err)
	}
	return string(out)
}

// publish sets all up.
func publish(t *testing.T, conf, table, serve string) *published {
	t.Helper()
	h := &house{dir: t.TempDir(), public: federationtest.FreeAddr(t), admin: federationtest.FreeAddr(t)}
	h.config, h.log = filepath.Join(h.dir, "baton.toml"), filepath.Join(h.dir, "stderr")
	t.Cleanup(func() { h.inspect(t) })
	servers := federationtest.FreeAddr(t)
	_, serverPort, _ := net.SplitHostPort(servers)
	p := &published{house: h, clients: federationtest.FreeAddr(t)}
	p.ports = strings.NewReplacer("127.0.0.1:6667", p.clients, "127.0.0.1:7000", servers, `port="7000"`, fmt.Sprintf("port=%q", serverPort),
		"http://127.0.0.1:8080", h.url())
	startPublished(t, h.dir, p.clients, servers, p.ports.Replace(conf))
	listeners := fmt.Sprintf("[http]\nlisten = %q\npublic_url = %q\n[admin]\nlisten = %q\n", h.public, h.url(), h.admin)
	if err := os.WriteFile(h.config, []byte(p.ports.Replace(table)+listeners+"[log]\nformat = \"json\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(serve), "\n")
	last := lines[len(lines)-1]
	if last != "go build ./cmd/baton && ./baton serve --config baton.toml" {
		t.Fatalf("the gateway is started with %q", last)
	}
	p.shell(t, strings.Join(lines[:len(lines)-1], "\n"))
	h.start(t)
	h.ready(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(h.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhatTheReadmeSaysWorks(t *testing.T) {
	t.Parallel()
	conf, table, serve, fromIRC, fromAIRC := tryIt(t)
	p := publish(t, conf, table, serve)
	watcher := (&network{InspIRCd: &bridgetest.InspIRCd{ClientAddr: p.clients}}).join(t, "watcher", "message-tags")

	line := strings.TrimSpace(p.shell(t, fromIRC))
	if !regexp.MustCompile(`^\[handoff …[0-9A-Z]{6}\] alice offers anyone: Cite three sources on X$`).MatchString(line) {
		t.Errorf("offer-irc prints %q", line)
	}
	seen := next(t, watcher, "the offer", func(m bridgetest.IRCMessage) bool { return m.Tags[vendor+"handoff"] == "offer" })
	if err := verify(seen.Tags, channel); err != nil || seen.Nick != "alice" {
		t.Errorf("the offer of %s: %v", seen.Nick, err)
	}

	next(t, watcher, "the end of alice", func(m bridgetest.IRCMessage) bool { return m.Command == "QUIT" && m.Nick == "alice" })
	var answer outcome
	out := p.shell(t, fromAIRC)
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Handoff.State != "offered" {
		t.Fatalf("offer-airc prints %s: %v", out, err)
	}
	m := nextStep(t, watcher, "offer", answer.Handoff.ID)
	if err := verify(m.Tags, channel); err != nil || m.Nick != "scout_7" || m.Tags[vendor+"handoff-to"] != seen.Tags[vendor+"handoff-from"] {
		t.Errorf("the offer of %s, %v: %v", m.Nick, m.Tags, err)
	}
	filed := 0
	for _, entry := range p.logged(t) {
		if entry["outcome"] == "filed" && entry["verb"] == "offer" {
			filed++
		}
	}
	if filed != 2 {
		t.Errorf("%d offers were filed, want 2", filed)
	}
}
