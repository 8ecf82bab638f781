//go:build interop

package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// documentPatience is how long the commands of one document may take.
const documentPatience = 4 * time.Minute

// Each document is executed in a folder of its own, from its first block to its last: the
// blocks of language sh run in one shell, except those with needs. A block of language
// text after one of sh is the output of its commands, with "…" for any text. Ports are
// replaced by free ones.
func TestCommandsInDocumentsWork(t *testing.T) {
	for _, d := range allDocuments(t) {
		if d.runnable() == "" {
			continue
		}
		t.Run(d.path, func(t *testing.T) {
			t.Parallel()
			d.run(t)
		})
	}
}

// mark precedes the output of each block.
const mark = "\x1e"

// runnable returns the script that the blocks of a document are, "" if none can be run.
func (d document) runnable() string {
	var script strings.Builder
	for i, f := range d.fences {
		if f.language == "sh" && f.needs == "" {
			fmt.Fprintf(&script, "printf '%s%d\\n'\n%s\n", mark, i, f.text)
		}
	}
	return script.String()
}

// prelude puts the commands of a checkout within reach of the shell. The
// program is built already.
const prelude = `go() {
	case "$*" in
	"build ./cmd/baton") ln -sf "$(command -v baton)" baton ;;
	"run ./cmd/baton "*) shift 2; baton "$@" ;;
	*) command go "$@" ;;
	esac
}
`

// run executes a document and compares the output.
func (d document) run(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	ports := newPorts(t)
	checkout(t, dir, ports)
	ctx, cancel := context.WithTimeout(t.Context(), documentPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "BATON_CONFIG=")
	cmd.Stdin = strings.NewReader(prelude + ports.free(d.runnable()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	// Background processes of the document end with the shell.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("%v\n%s%s", err, stdout.String(), stderr.String())
		d.logs(t, dir)
		return
	}
	d.compare(t, ports.published(stdout.String()))
}

// checkout gives a folder the files that documents use: a copy of deploy whose configurations
// have free ports, and the rest as it is.
func checkout(t *testing.T, dir string, ports *ports) {
	t.Helper()
	for _, name := range []string{"configs", "federation"} {
		path, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(root, "deploy"))); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "deploy", "*", "*.toml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d configurations, %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(ports.replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (document) logs(t *testing.T, dir string) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	more, _ := filepath.Glob(filepath.Join(dir, "*", "log"))
	for _, path := range append(logs, more...) {
		if text, err := os.ReadFile(path); err == nil {
			t.Logf("%s:\n%s", path, text)
		}
	}
}

// compare compares the output of the blocks with the document.
func (d document) compare(t *testing.T, printed string) {
	t.Helper()
	got := map[int]string{}
	for part := range strings.SplitSeq(printed, mark) {
		var i int
		number, text, _ := strings.Cut(part, "\n")
		if _, err := fmt.Sscan(number, &i); err == nil {
			got[i] = text
		}
	}
	for i, f := range d.fences {
		if f.language != "text" || i == 0 {
			continue
		}
		if before := d.fences[i-1]; before.language == "sh" && before.needs == "" && !says(f.text, got[i-1]) {
			t.Errorf("%s:%d: the document says\n%sand the commands print\n%s", d.path, f.line, f.text, got[i-1])
		}
	}
}

// varying matches texts that differ from run to run: times, ids, the rest of a
// DID, durations.
var varying = regexp.MustCompile(`(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d\.\d{3}Z?|\b[0-9A-HJKMNP-TV-Z]{26}\b|…[0-9A-HJKMNP-TV-Z]{6}\b|z6Mk\w+…?|\b\d+ ms\b`)

// says reports whether a text matches the document. An ellipsis in the document stands
// for any text, and runs of spaces are alike.
func says(shown, printed string) bool {
	plain := func(text string) string {
		return strings.TrimSpace(regexp.MustCompile(` +`).ReplaceAllString(varying.ReplaceAllString(text, "~"), " "))
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(plain(shown)), "…", "(?s:.*)")
	return regexp.MustCompile("^" + pattern + "$").MatchString(plain(printed))
}

// ports replaces the ports of a document by free ones, each by the same one.
type ports struct {
	t        *testing.T
	assigned map[string]string // by the port in the document
}

var portIn = regexp.MustCompile(`(127\.0\.0\.1:|port=")([1-9][0-9]{3,4})\b`)

func newPorts(t *testing.T) *ports {
	t.Helper()
	return &ports{t: t, assigned: map[string]string{}}
}

// free returns a script with free ports. A configuration without listeners gets the default
// ones.
func (p *ports) free(script string) string {
	if !strings.Contains(script, "\n[http]\n") {
		script = strings.ReplaceAll(script, "\n[home]\n", "\n[http]\nlisten = \"127.0.0.1:8080\"\npublic_url = \"http://127.0.0.1:8080\"\n[home]\n")
	}
	if !strings.Contains(script, "\n[admin]\n") {
		script = strings.ReplaceAll(script, "\n[home]\n", "\n[admin]\nlisten = \"127.0.0.1:8081\"\n[home]\n")
	}
	return p.replace(p.quickstarts(script))
}

var quickstarted = regexp.MustCompile(`(?m)^(\./baton quickstart .*--dir (\S+).*)$`)

// quickstarts returns a script in which the configuration that quickstart writes gets the free ports.
func (p *ports) quickstarts(script string) string {
	var edits strings.Builder
	for _, port := range []string{"7000", "8080", "8081"} {
		edits.WriteString(" -e 's/127[.]0[.]0[.]1:" + port + "/127.0.0.1:" + port + "/'")
	}
	return quickstarted.ReplaceAllString(script, "$1\nsed -i"+edits.String()+" $2/baton.toml")
}

func (p *ports) replace(text string) string {
	return portIn.ReplaceAllStringFunc(text, func(found string) string {
		match := portIn.FindStringSubmatch(found)
		if p.assigned[match[2]] == "" {
			_, port, _ := strings.Cut(federationtest.FreeAddr(p.t), ":")
			p.assigned[match[2]] = port
		}
		return match[1] + p.assigned[match[2]]
	})
}

// published returns a text with the ports of the document again.
func (p *ports) published(text string) string {
	for original, assigned := range p.assigned {
		text = strings.ReplaceAll(text, "127.0.0.1:"+assigned, "127.0.0.1:"+original)
	}
	return text
}
