//go:build interop

package main_test

import (
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"baton/bridge/bridgetest"
	"baton/federation/identity"
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
// what the guide says that she reads.
func TestTheGuideOfAgentHostsWorks(t *testing.T) {
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
func TestThePythonOfTheGuideOfAgentHostsWorks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	p := newPerson(t)
	id := logIn(t, h.url()).offer(t, map[string]any{"to": p.did, "title": title})
	code := strings.ReplaceAll(readDocument(t, mcpGuide).block(t, "python", 0).text, "https://gw.example", h.url())
	code = strings.ReplaceAll(code, "await client.call_tool(", "print(await client.call_tool(")
	code = strings.ReplaceAll(code, `{"seconds": 600})`, `{"seconds": 600}))`)
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

did, seed, url = sys.argv[1:]
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
	out, err := exec.CommandContext(t.Context(), python, "-c", script, p.did, hex.EncodeToString(p.key.Seed()), address).CombinedOutput()
	if err != nil || !strings.Contains(string(out), id) {
		t.Errorf("it prints %s, %v", out, err)
	}
}
