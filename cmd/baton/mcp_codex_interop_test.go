//go:build interop

package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// codex is the program of Codex with a home folder of its own.
type codex struct {
	t    *testing.T
	home string
}

// newCodex returns the program, which calls a model at an address.
func newCodex(t *testing.T, model string) *codex {
	t.Helper()
	c := &codex{t, t.TempDir()}
	config := fmt.Sprintf("mcp_oauth_credentials_store = \"file\"\nmodel = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = %q\n", model+"/v1")
	if err := os.WriteFile(filepath.Join(c.home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *codex) command(arguments ...string) *exec.Cmd {
	program := filepath.Join(clients(c.t), "codex", "node_modules", "@openai", "codex", "vendor", "x86_64-unknown-linux-musl", "bin", "codex")
	cmd := exec.CommandContext(c.t.Context(), program, arguments...)
	cmd.Dir, cmd.Env = c.home, append(os.Environ(), "HOME="+c.home, "CODEX_HOME="+c.home)
	return cmd
}

// run runs the program and returns its output.
func (c *codex) run(arguments ...string) string {
	c.t.Helper()
	out, err := c.command(arguments...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("codex %s: %s, %v", strings.Join(arguments, " "), out, err)
	}
	return string(out)
}

// add adds the server baton, and gives the page that the program names a pairing code.
func (c *codex) add(h *house, code string) string {
	c.t.Helper()
	cmd := c.command("mcp", "add", "baton", "--url", h.url()+"/mcp")
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	reader, address := bufio.NewReader(output), ""
	for address == "" {
		line, err := reader.ReadString('\n')
		if err != nil {
			c.t.Fatalf("codex mcp add names no page: %v", err)
		}
		address = regexp.MustCompile(regexp.QuoteMeta(h.url()) + `/oauth/authorize\S+`).FindString(line)
	}
	approve(c.t, h, address, code)
	rest, err := io.ReadAll(reader)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		c.t.Fatalf("codex mcp add: %s, %v", rest, err)
	}
	return string(rest)
}

// Codex gets nothing but the address of the gateway, and a pairing code that a person asked for on IRC. It
// finds the work that another person on IRC offers, and completes it.
func TestMCPCodexDoesTheWorkOfAnIRCUser(t *testing.T) {
	t.Parallel()
	doesTheWorkOfAnIRCUser(t, (*scriptedModel).serveResponses, func(s *homeServer, model, code string) func(prompt string) string {
		c := newCodex(t, model)
		if got := c.add(s.house, code); !strings.Contains(got, "Successfully logged in") {
			t.Errorf("the login prints %s", got)
		}
		if got := c.run("mcp", "list"); !regexp.MustCompile(`baton .* OAuth`).MatchString(got) {
			t.Errorf("after the login the servers are %s", got)
		}
		return func(prompt string) string {
			return c.run("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt)
		}
	})
}
