//go:build interop

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/bridge/bridgetest"
)

// section returns the blocks of a section of the README, which are of certain kinds.
func section(t *testing.T, title, kinds string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, found, _ := strings.Cut(string(text), "## "+title+"\n")
	found, _, _ = strings.Cut(found, "\n## ")
	var got []string
	for _, block := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(found, -1) {
		got, blocks = append(got, block[1]), append(blocks, block[2])
	}
	if got := strings.Join(got, " "); got != kinds {
		t.Fatalf("the section %q has the blocks %q", title, got)
	}
	return blocks
}

// plainHTTP returns what the README says of plain HTTP: the session, to which the notices
// belong, how its programs are run, and what it shows of each of these by the name of its
// language.
func plainHTTP(t *testing.T) (session, programs string, shown map[string]string) {
	t.Helper()
	blocks := section(t, "Over plain HTTP", "toml sh sh python ts go sh")[1:]
	return blocks[0] + blocks[5], blocks[1], map[string]string{"python": blocks[2], "ts": blocks[3], "go": blocks[4]}
}

// The webhook is registered in the same shell as the session, on this machine.
func TestWhatTheReadmeSaysOfPlainHTTPWorks(t *testing.T) {
	t.Parallel()
	conf, table, serve, _, _ := tryIt(t)
	rule := section(t, "Over plain HTTP", "toml sh sh python ts go sh")[0]
	p := publish(t, conf, table+rule+"[fetch]\nallow_private = true\n", serve)
	watcher := (&network{InspIRCd: &bridgetest.InspIRCd{ClientAddr: p.clients}}).join(t, "watcher", "message-tags")
	session, _, _ := plainHTTP(t)
	server := newReceiver(t)
	out := p.shell(t, session+strings.ReplaceAll(section(t, "Webhooks", "sh python")[0], "https://scholar.example", server.URL))
	for _, want := range []string{`"title":"Cite three sources on X"`, `"verb":"accept"`, `"state":"completed"`, "event: step\ndata: {", `"note":"three found"`, `"provenance":"vouched"`, `{"items":[],"next_cursor":""}`, `"secret":"whsec_`} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %s:\n%s", want, out)
		}
	}
	for _, verb := range []string{"offer", "accept", "complete"} {
		m := next(t, watcher, verb, func(m bridgetest.IRCMessage) bool { return m.Tags[vendor+"handoff"] == verb })
		if err := verify(m.Tags, channel); err != nil {
			t.Errorf("%s on IRC: %v", verb, err)
		}
	}
	if posted := server.next(t, 1); posted.step.Type != "handoff.offer" || posted.step.Data.Step.Title != "Cite three sources on X" {
		t.Errorf("the webhook is posted %s", posted.body)
	}
	passport, err := p.command(t, "handoff", "verify", filepath.Join(p.dir, "passport.json")).CombinedOutput()
	if err != nil || !strings.Contains(string(passport), `"verdict":"valid"`) {
		t.Errorf("the passport is %q, %v", passport, err)
	}
}

// The programs are run as they stand, but for the one in TypeScript: Debian's Node reads
// none, so that the compiler makes it what a newer Node would run.
func TestTheProgramsOverPlainHTTPWork(t *testing.T) {
	t.Parallel()
	_, programs, shown := plainHTTP(t)
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(h.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	compiled := compile(t, h.dir, filepath.Join(root, "deploy", "examples", "rest.ts"))
	p := &published{house: h, ports: strings.NewReplacer("http://127.0.0.1:8080", h.url(), "deploy/examples/rest.ts", compiled)}
	steps := regexp.MustCompile(`^completed \W*offer\W+accept\W+complete\W*$`)
	for language, program := range map[string]string{"python": "rest.py", "ts": "rest.ts", "go": "rest.go"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(root, "deploy", "examples", program))
			if err != nil {
				t.Fatal(err)
			}
			plain := strings.NewReplacer("\t", "", "    ", "")
			if !strings.Contains(plain.Replace(string(text)), plain.Replace(shown[language])) {
				t.Errorf("the README shows what is not in %s:\n%s", program, shown[language])
			}
			for line := range strings.Lines(programs) {
				if !strings.Contains(line, program) {
					continue
				}
				if out := p.shell(t, line); !steps.MatchString(out) {
					t.Errorf("%s prints %q", line, out)
				}
			}
		})
	}
}

// compile makes a program in TypeScript, of syntax that could be left out, one that an
// older Node runs, and returns where that is.
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
