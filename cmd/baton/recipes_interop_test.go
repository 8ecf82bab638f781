//go:build interop

package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// agentGuide is the guide of agents over plain HTTP.
const agentGuide = "bridge/agents/rest/README.md"

// guideBlock returns the only block of the guide of agents in a language that contains a text.
func guideBlock(t *testing.T, language, containing string) string {
	t.Helper()
	var found []string
	for _, f := range readDocument(t, agentGuide).fences {
		if f.language == language && strings.Contains(f.text, containing) {
			found = append(found, f.text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks of %s with %q, want 1", agentGuide, len(found), language, containing)
	}
	return found[0]
}

// shell runs a block of a document in the folder of a house, which has the examples.
func (h *house) shell(t *testing.T, block string, env ...string) string {
	t.Helper()
	examples, err := filepath.Abs(filepath.Join(root, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(h.dir, "deploy")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", block)
	cmd.Dir = h.dir
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s%v", block, out, err)
	}
	return string(out)
}

// The programs are run unchanged, except for the one in TypeScript: Debian's Node reads
// no TypeScript, so the compiler makes the JavaScript that a newer Node would run.
func TestRecipesOverHTTPWork(t *testing.T) {
	t.Parallel()
	programs := guideBlock(t, "sh", "rest.py")
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	compiled := compile(t, h.dir, filepath.Join(root, "deploy", "examples", "rest.ts"))
	local := strings.NewReplacer("http://127.0.0.1:8080", h.url(), "deploy/examples/rest.ts", compiled)
	steps := regexp.MustCompile(`^completed \W*offer\W+accept\W+complete\W*$`)
	for language, program := range map[string]string{"python": "rest.py", "ts": "rest.ts", "go": "rest.go"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", "examples", program))
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.NewReplacer("\t", "", "    ", "")
		if shown := guideBlock(t, language, "Cite three sources on X"); !strings.Contains(plain.Replace(string(text)), plain.Replace(shown)) {
			t.Errorf("%s shows what is not in %s:\n%s", agentGuide, program, shown)
		}
		for line := range strings.Lines(programs) {
			if !strings.Contains(line, program) {
				continue
			}
			if out := h.shell(t, local.Replace(line)); !steps.MatchString(out) {
				t.Errorf("%s prints %q", line, out)
			}
		}
	}
}

// compile makes a program in TypeScript, of syntax that could be left out, one that an
// older Node runs, and returns its path.
func compile(t *testing.T, dir, program string) string {
	t.Helper()
	modules := filepath.Join(clients(t), "node", "node_modules")
	tsc := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "typescript", "bin", "tsc"), "--strict", "--erasableSyntaxOnly",
		"--skipLibCheck", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler",
		"--types", "node", "--typeRoots", filepath.Join(modules, "@types"), "--outDir", dir, program)
	if out, err := tsc.CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	compiled := strings.TrimSuffix(filepath.Join(dir, filepath.Base(program)), ".ts")
	if err := os.Rename(compiled+".js", compiled+".mjs"); err != nil {
		t.Fatal(err)
	}
	return compiled + ".mjs"
}

// The address of the guide is replaced by one of this machine.
func TestRecipeOfTheWebhookWorks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[fetch]\nallow_private = true\n")
	h.start(t)
	h.ready(t)
	eliza, scholar, server := logIn(t, h.url()), logIn(t, h.url()), newReceiver(t)
	register := strings.ReplaceAll(guideBlock(t, "sh", "scholar.example"), "https://scholar.example", server.URL)
	answer := h.shell(t, register, "scholar="+scholar.token, "json=Content-Type: application/json", "api="+h.url()+"/api/v1")
	shown := guideBlock(t, "text", "scholar.example")
	for _, member := range regexp.MustCompile(`"[a-z_]+":`).FindAllString(shown, -1) {
		if !strings.Contains(answer, member) {
			t.Errorf("the gateway answers %s, and the guide shows %s", answer, shown)
		}
	}
	eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite three sources on X"})
	if posted := server.next(t, 1); posted.step.Type != "handoff.offer" || posted.step.Data.Step.Title != "Cite three sources on X" {
		t.Errorf("the webhook is posted %s", posted.body)
	}
}
