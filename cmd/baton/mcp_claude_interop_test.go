//go:build interop

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"baton/bridge/bridgetest"
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

// command returns a command of the program.
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
	v := newVisitor(c.t, h)
	page := v.ask(c.t, http.MethodGet, strings.TrimPrefix(string(address), h.url()), "", "", nil)
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if form == nil {
		c.t.Fatalf("the page has no form: %s", page)
	}
	var back string
	v.ask(c.t, http.MethodPost, "/oauth/authorize", "application/x-www-form-urlencoded", "as=code&code="+code+"&form="+form[1], &back)
	v.url = back
	v.ask(c.t, http.MethodGet, "", "", "", nil)
	if err := cmd.Wait(); err != nil {
		c.t.Fatalf("claude mcp login: %s, %v", out.String(), err)
	}
	_ = terminal.Close()
	return out.String()
}

// scriptedModel is a server of the Messages API. Its model calls tools of Baton in a fixed order.
type scriptedModel struct {
	*httptest.Server

	steps []scriptedCall

	mu      sync.Mutex
	results []string // of the calls
}

// scriptedCall is one call of a model. {id} in its arguments is the first handoff of the results.
type scriptedCall struct{ tool, arguments string }

func newScriptedModel(t *testing.T, steps ...scriptedCall) *scriptedModel {
	t.Helper()
	m := &scriptedModel{steps: steps}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// modelRequest is a request for the next message of a model.
type modelRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// resultsOf returns the results of the tools in a request.
func (r modelRequest) resultsOf() []string {
	var all []string
	for _, message := range r.Messages {
		var blocks []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(message.Content, &blocks) != nil {
			continue // plain text
		}
		for _, block := range blocks {
			if block.Type == "tool_result" {
				all = append(all, string(block.Content))
			}
		}
	}
	return all
}

// serve answers a request with the next call, or with text after the last one.
func (m *scriptedModel) serve(w http.ResponseWriter, r *http.Request) {
	var asked modelRequest
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &asked) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	results := asked.resultsOf()
	var tool string
	if len(results) < len(m.steps) {
		for _, each := range asked.Tools {
			if each.Name == "mcp__baton__"+m.steps[len(results)].tool {
				tool = each.Name
			}
		}
	}
	start, delta, stop := `{"type":"text","text":""}`, `{"type":"text_delta","text":"I am done."}`, "end_turn"
	if tool != "" {
		id := regexp.MustCompile("01[0-9A-Z]{24}").FindString(strings.Join(results, " "))
		arguments := strconv.Quote(strings.ReplaceAll(m.steps[len(results)].arguments, "{id}", id))
		start = fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}`, len(results), tool)
		delta, stop = fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, arguments), "tool_use"
	}
	m.mu.Lock()
	if len(results) > len(m.results) {
		m.results = results
	}
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []struct{ name, members string }{
		{"message_start", fmt.Sprintf(`"message":{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`, asked.Model)},
		{"content_block_start", `"index":0,"content_block":` + start},
		{"content_block_delta", `"index":0,"delta":` + delta},
		{"content_block_stop", `"index":0`},
		{"message_delta", fmt.Sprintf(`"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":1}`, stop)},
		{"message_stop", `"index":0`},
	} {
		_, _ = fmt.Fprintf(w, "event: %[1]s\ndata: {\"type\":%[1]q,%[2]s}\n\n", event.name, event.members)
	}
}

// Claude Code gets nothing but the address of the gateway, and a pairing code that a person asked for on
// IRC. It finds the work that another person on IRC offers, and completes it.
func TestClaudeCodeDoesTheWorkOfAnIRCUser(t *testing.T) {
	t.Parallel()
	eliza, scholar := newPerson(t), newPerson(t)
	binding := "[[bindings]]\nnetwork = \"client\"\nname = %[1]q\ndid = %[1]q\nvouch = true\n"
	s := newHomeServer(t, fmt.Sprintf(binding, eliza.did), fmt.Sprintf(binding, scholar.did), "[limits]\n"+anyAddress)
	voice, human := s.login(t, "eliza", eliza), s.login(t, "scholar", scholar)
	join(t, voice)
	join(t, human)
	model := newScriptedModel(t,
		scriptedCall{"handoff_list", `{"claimable":true}`},
		scriptedCall{"handoff_claim", `{"id":"{id}","idempotency_key":"c"}`},
		scriptedCall{"handoff_progress", `{"id":"{id}","note":"two of three","idempotency_key":"p"}`},
		scriptedCall{"handoff_complete", `{"id":"{id}","note":"here are three","idempotency_key":"d"}`},
	)
	claude := newClaudeCode(t, model.URL)
	claude.run("mcp", "add", "--transport", "http", "baton", s.url()+"/mcp")
	if got := claude.run("mcp", "list"); !strings.Contains(got, "Needs authentication") {
		t.Errorf("without a login the servers are %s", got)
	}
	code := regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(asksBaton(t, human, "pair"))
	if got := claude.logIn(s.house, code); !strings.Contains(got, `Authenticated with "baton"`) {
		t.Errorf("the login prints %s", got)
	}
	if got := claude.run("mcp", "list"); !strings.Contains(got, "Connected") {
		t.Errorf("after the login the servers are %s", got)
	}
	if told := asksBaton(t, voice, "offer anyone Cite three sources"); !strings.Contains(told, "offer: it is open now") {
		t.Fatalf("the offer is answered %q", told)
	}
	said := claude.run("-p", "Find open work, do it and report.", "--allowedTools", "mcp__baton")
	if !strings.Contains(said, "I am done.") || len(model.results) != len(model.steps) || !strings.Contains(model.results[len(model.results)-1], "completed") {
		t.Errorf("claude says %q after %s", said, model.results)
	}
	next(t, voice, "the result", func(m bridgetest.IRCMessage) bool {
		return strings.Contains(m.Params[len(m.Params)-1], "here are three")
	})
}
