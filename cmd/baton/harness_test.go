package main_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// program is the name under which TestMain makes the program known.
const program = "baton"

// Waits for events without a trigger. A wait takes a second or two if needed,
// because an idle InspIRCd wakes once a second; the rest is for a busy machine.
const (
	patience = time.Minute
	lookEach = 10 * time.Millisecond
)

// anyAddress is the part of a table [limits] that lets one address do as much as it likes:
// all clients of a test have one.
const anyAddress = "connections_per_address = 0\nhttp_connections_per_address = 0\nlogins_per_minute = 0\naddress_events_per_minute = 0\n" +
	"new_dids_per_hour = 0\nnew_dids_per_address_per_hour = 0\nrecord_bytes_per_hour = 0\n"

// house is the place of one gateway: its folder, configuration and addresses
// stay when the process ends.
type house struct {
	dir, config   string
	public, admin string // host:port
	log           string // path of the process's stderr, of all its lives
	process       *exec.Cmd
	exited        chan struct{}
	secrets       []string // no output may contain them
	binary        string   // the binary to run; empty for [program]
	secure        bool     // it speaks TLS, if [house.configure] gets a certificate
	death         string   // point at which the process is to end itself, see [deathVar]
	fault         string   // log lines that panic, see [panicVar]
	operator      *client.Client
	shared        string // tables of the configuration that replicas share
}

// newHouse makes a house whose configuration ends in the given tables.
func newHouse(t *testing.T, tables ...string) *house {
	t.Helper()
	dir := t.TempDir()
	h := &house{
		dir: dir, config: filepath.Join(dir, "baton.toml"), log: filepath.Join(dir, "stderr"),
		public: federationtest.FreeAddr(t), admin: federationtest.FreeAddr(t),
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.operator = client.NewSocket(filepath.Join(dir, "data", "baton.sock"))
	h.configure(t, tables...)
	t.Cleanup(func() { h.inspect(t) })
	return h
}

func (h *house) configure(t *testing.T, tables ...string) {
	t.Helper()
	text := fmt.Sprintf(`[home]
name = "gw.test"
[http]
listen = %q
public_url = %q
tls = %t
[admin]
listen = %q
[log]
level = "debug"
format = "json"
%s
%s`, h.public, h.url(), h.secure, h.admin, strings.Join(tables, "\n"), h.shared)
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// url returns the address of the public listener.
func (h *house) url() string {
	if h.secure {
		return "https://" + h.public
	}
	return "http://" + h.public
}

func (h *house) keep(t *testing.T, name, secret string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "data", name), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.secrets = append(h.secrets, secret)
}

// start runs the gateway and returns when it answers.
func (h *house) start(t *testing.T) {
	t.Helper()
	h.launch(t)
	await(t, "the gateway to live", func() bool {
		status, _ := h.ask(t, "/livez")
		return status == http.StatusOK || h.gone()
	})
	if h.gone() {
		t.Fatalf("the gateway ended with %d", h.process.ProcessState.ExitCode())
	}
}

// launch runs the gateway and does not wait for it.
func (h *house) launch(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(h.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// The test ends the process itself, later than its context ends.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), cmp.Or(h.binary, program), "serve", "--config", h.config)
	cmd.Env = append(os.Environ(), deathVar+"="+h.death, panicVar+"="+h.fault)
	cmd.Stderr = log // a file: output written before an answer is there with the answer
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its exit code is in ProcessState
		close(exited)
	}()
	h.process, h.exited = cmd, exited
}

// gone tells whether the process has ended.
func (h *house) gone() bool {
	select {
	case <-h.exited:
		return true
	default:
		return false
	}
}

// wait waits for the end of the process and returns its exit code.
func (h *house) wait(t *testing.T) int {
	t.Helper()
	await(t, "the gateway to end", h.gone)
	return h.process.ProcessState.ExitCode()
}

func (h *house) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := h.process.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// kill ends the process as a power cut would.
func (h *house) kill(t *testing.T) {
	t.Helper()
	h.signal(t, syscall.SIGKILL)
	h.wait(t)
}

// stop asks the process to end and returns its exit code.
func (h *house) stop(t *testing.T) int {
	t.Helper()
	h.signal(t, syscall.SIGTERM)
	return h.wait(t)
}

// ready waits until the gateway says that all is up.
func (h *house) ready(t *testing.T) {
	t.Helper()
	await(t, "the gateway to be ready", func() bool {
		status, _ := h.ask(t, "/readyz")
		return status == http.StatusOK
	})
}

// ask reads from the operators' listener. The status is 0 when nothing listens.
func (h *house) ask(t *testing.T, path string) (status int, body string) {
	t.Helper()
	return get(t, "http://"+h.admin+path)
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// counters returns the counters of the running process, by name and labels as
// /metrics writes them.
func (h *house) counters(t *testing.T) map[string]float64 {
	t.Helper()
	status, text := h.ask(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d", status)
	}
	counters := map[string]float64{}
	for line := range strings.Lines(text) {
		series, number, ok := cutLast(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("/metrics: %q: %v", line, err)
		}
		counters[series] = value
	}
	return counters
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// logged returns the gateway's log at info and above, of all its lives.
func (h *house) logged(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range strings.Lines(h.told(t)) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("a line of the log is no JSON: %q", line)
		}
		if entry["level"] != "DEBUG" {
			lines = append(lines, entry)
		}
	}
	return lines
}

// told returns all that the gateway wrote to stderr.
func (h *house) told(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(h.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// inspect ends the running processes and looks for forbidden output.
func (h *house) inspect(t *testing.T) {
	t.Helper()
	if h.process != nil && !h.gone() {
		_ = h.process.Process.Kill()
		<-h.exited
	}
	told := h.told(t)
	nevers := append(h.secrets, "DATA RACE")
	if h.fault == "" {
		nevers = append(nevers, "panic:", "panicked", "fault contained")
	}
	for _, never := range nevers {
		if strings.Contains(told, never) {
			t.Errorf("the gateway wrote %q", never)
		}
	}
	if t.Failed() {
		t.Logf("the gateway wrote:\n%s", told)
	}
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
		<-tick.C
	}
}
