//go:build interop

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// claudeCode is the program of Claude Code with a home folder and a project of its own.
type claudeCode struct {
	t       *testing.T
	program string
	home    string
	env     []string
}

// newClaudeCode returns the program, which calls a model at an address.
func newClaudeCode(t *testing.T, model string) *claudeCode {
	t.Helper()
	return &claudeCode{t, filepath.Join(clients(t), "claude", "node_modules", "@anthropic-ai", "claude-code-linux-x64", "claude"), t.TempDir(), []string{
		"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=none", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}}
}

func (c *claudeCode) command(name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), name, arguments...)
	cmd.Dir, cmd.Env = c.home, append(os.Environ(), append(c.env, "HOME="+c.home)...)
	return cmd
}

// run runs the program and returns its output.
func (c *claudeCode) run(arguments ...string) string {
	c.t.Helper()
	out, err := c.command(c.program, arguments...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("claude %s: %s, %v", strings.Join(arguments, " "), out, err)
	}
	return string(out)
}

// logIn logs in to the server baton on a terminal, which the program asks for. The browser that it opens
// gives the page a pairing code.
func (c *claudeCode) logIn(h *house, code string) string {
	c.t.Helper()
	opened, browser := filepath.Join(c.home, "opened"), filepath.Join(c.home, "browser")
	script := fmt.Sprintf("#!/bin/sh\nprintf %%s \"$1\" >%[1]s.new && mv %[1]s.new %[1]s\n", opened)
	if err := os.WriteFile(browser, []byte(script), 0o700); err != nil {
		c.t.Fatal(err)
	}
	cmd := c.command("script", "-qec", c.program+" mcp login baton", "/dev/null")
	cmd.Env = append(cmd.Env, "BROWSER="+browser)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	terminal, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	await(c.t, "the browser to be opened", func() bool { _, err := os.Stat(opened); return err == nil })
	address, err := os.ReadFile(opened)
	if err != nil {
		c.t.Fatal(err)
	}
	approve(c.t, h, string(address), code)
	if err := cmd.Wait(); err != nil {
		c.t.Fatalf("claude mcp login: %s, %v", out.String(), err)
	}
	_ = terminal.Close()
	return out.String()
}

// Claude Code gets nothing but the address of the gateway, and a pairing code that a person asked for on
// IRC. It finds the work that another person on IRC offers, and completes it.
func TestMCPClaudeCodeDoesTheWorkOfAnIRCUser(t *testing.T) {
	t.Parallel()
	doesTheWorkOfAnIRCUser(t, (*scriptedModel).serveMessages, func(s *homeServer, model, code string) func(prompt string) string {
		claude := newClaudeCode(t, model)
		claude.run("mcp", "add", "--transport", "http", "baton", s.url()+"/mcp")
		if got := claude.run("mcp", "list"); !strings.Contains(got, "Needs authentication") {
			t.Errorf("without a login the servers are %s", got)
		}
		if got := claude.logIn(s.house, code); !strings.Contains(got, `Authenticated with "baton"`) {
			t.Errorf("the login prints %s", got)
		}
		if got := claude.run("mcp", "list"); !strings.Contains(got, "Connected") {
			t.Errorf("after the login the servers are %s", got)
		}
		return func(prompt string) string { return claude.run("-p", prompt, "--allowedTools", "mcp__baton") }
	})
}
