package main_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// benchGateway runs a gateway without limits, built as it ships, and returns its addresses
// and process.
func benchGateway(tb testing.TB) (url, admin string, pid int) {
	tb.Helper()
	dir := tb.TempDir()
	program, config := filepath.Join(dir, "baton"), filepath.Join(dir, "baton.toml")
	public, operators := federationtest.FreeAddr(tb), federationtest.FreeAddr(tb)
	if out, err := exec.CommandContext(tb.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		tb.Fatalf("build: %v\n%s", err, out)
	}
	url = "http://" + public
	text := fmt.Sprintf(`[home]
name = "gw.test"
[http]
listen = %q
public_url = %q
[admin]
listen = %q
[log]
level = "error"
[limits]
did_events_per_minute = 0
open_handoffs_per_did = 0
inbox_events = 0
inbox_bytes = 0
inbox_events_per_sender = 0
inbox_bytes_per_sender = 0
%s`, public, url, operators, anyAddress)
	err := os.WriteFile(config, []byte(text), 0o600)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "data"), 0o700)
	}
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), program, "serve", "--config", config)
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for begun := time.Now(); ; time.Sleep(lookEach) {
		conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", public)
		if err == nil {
			_ = conn.Close()
			return url, "http://" + operators, cmd.Process.Pid
		}
		if time.Since(begun) > patience {
			tb.Fatal("the gateway does not listen")
		}
	}
}

// watchers are how many watch one inbox at a time.
const watchers = 2000

// BenchmarkWatchers is the cost of clients that watch or poll one inbox: the memory of the
// gateway for each client, and the time from an offer, which is written to disk first, until
// they have it. The metric x_plain is the p99 as a multiple of the time in which one
// goroutine writes as much to as many bare connections, with readers on the same cores.
func BenchmarkWatchers(b *testing.B) {
	var plain time.Duration
	b.Run("plain", func(b *testing.B) { plain = plainWrites(b) })
	for name, watch := range map[string]func(*bufio.ReadWriter, *caller, func()){"streams": watchStream, "polls": watchPolls} {
		b.Run(name, func(b *testing.B) {
			url, admin, pid := benchGateway(b)
			eliza, scholar := logIn(b, url), logIn(b, url)
			eliza.offer(b, map[string]any{"to": scholar.did, "title": "so that all is loaded"})
			rest := liveKiB(b, admin)
			arrived := make(chan time.Time, watchers)
			hangUp := crowd(b, url, func(rw *bufio.ReadWriter) { watch(rw, scholar, func() { arrived <- time.Now() }) })
			defer hangUp()
			watched(arrived, time.Now()) // the first offer says that each is there
			settle(b, pid)
			var held float64
			for range 4 { // each time a mostly empty stack loses half of it
				held = (liveKiB(b, admin) - rest) / watchers
			}
			var took []time.Duration
			worked := cpuTime(b, pid)
			for b.Loop() {
				begun := time.Now()
				eliza.offer(b, map[string]any{"to": scholar.did, "title": "Cite three sources on X"})
				took = append(took, watched(arrived, begun)...)
				b.StopTimer()
				settle(b, pid) // the polling clients have asked again
				b.StartTimer()
			}
			reportCPU(b, cpuTime(b, pid)-worked, b.N*watchers)
			b.ReportMetric(held, "KiB/watcher")
			b.ReportMetric(reportWatched(b, took).Seconds()/plain.Seconds(), "x_plain")
		})
	}
}

// watched returns how long it took each watcher to have something.
func watched(arrived <-chan time.Time, since time.Time) (took []time.Duration) {
	for range watchers {
		took = append(took, (<-arrived).Sub(since))
	}
	return took
}

// reportWatched reports the half and nearly all of some times, and returns the latter.
func reportWatched(b *testing.B, took []time.Duration) (p99 time.Duration) {
	b.Helper()
	slices.Sort(took)
	for _, percent := range []int{50, 99} {
		p99 = took[(len(took)-1)*percent/100]
		b.ReportMetric(float64(p99)/float64(time.Millisecond), fmt.Sprintf("p%d-ms", percent))
	}
	return p99
}

// plainWrites is the time for a line of the length of an event to arrive when written to
// as many connections as there are watchers.
func plainWrites(b *testing.B) (p99 time.Duration) {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, watchers)
	go func() {
		for range watchers {
			conn, err := listener.Accept()
			if err != nil {
				return // some connection was refused, which fails the test
			}
			accepted <- conn
		}
	}()
	arrived := make(chan time.Time, watchers)
	hangUp := crowd(b, "http://"+listener.Addr().String(), func(rw *bufio.ReadWriter) {
		for {
			if _, err := rw.ReadSlice('\n'); err != nil {
				return
			}
			arrived <- time.Now()
		}
	})
	defer hangUp()
	conns := make([]net.Conn, watchers)
	for i := range conns {
		conns[i] = <-accepted
		defer conns[i].Close()
	}
	line := append(bytes.Repeat([]byte("x"), plainBytes), '\n')
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		for _, conn := range conns {
			if _, err := conn.Write(line); err != nil {
				b.Fatal(err)
			}
		}
		took = append(took, watched(arrived, begun)...)
	}
	return reportWatched(b, took)
}

// plainBytes is about as long as the event of an offer.
const plainBytes = 1200

// liveKiB returns a gateway's memory after garbage collection: objects and stacks.
func liveKiB(tb testing.TB, admin string) (size float64) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		tb.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range []string{"\n# HeapAlloc = ", "\n# Stack = "} {
		_, after, _ := strings.Cut(string(text), name)
		var held float64
		if _, err := fmt.Sscanf(after, "%f", &held); err != nil {
			tb.Fatalf("no %q is told: %v", name, err)
		}
		size += held / 1024
	}
	return size
}

// crowd connects as many as watch, and returns how all of them hang up.
func crowd(b *testing.B, url string, watch func(rw *bufio.ReadWriter)) (hangUp func()) {
	b.Helper()
	var all sync.WaitGroup
	var conns []net.Conn
	for range watchers {
		conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, conn)
		all.Go(func() { watch(bufio.NewReadWriter(bufio.NewReaderSize(conn, 2048), bufio.NewWriterSize(conn, 1024))) })
	}
	return func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
		all.Wait()
	}
}

// asks sends a request for an inbox.
func asks(rw *bufio.ReadWriter, c *caller, path string) error {
	fmt.Fprintf(rw, "GET /api/v1/inbox%s HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer %s\r\n\r\n", path, c.token)
	return rw.Flush()
}

// watchStream watches an inbox until the connection is gone.
func watchStream(rw *bufio.ReadWriter, c *caller, came func()) {
	if asks(rw, c, "/stream") != nil {
		return
	}
	for begins := true; ; {
		text, more, err := rw.ReadLine()
		if err != nil {
			return
		}
		if begins && bytes.HasPrefix(text, []byte("data: ")) {
			came()
		}
		begins = !more
	}
}

// watchPolls polls an inbox until the connection is gone.
func watchPolls(rw *bufio.ReadWriter, c *caller, came func()) {
	page := make([]byte, 2*plainBytes) // room for one offer
	for cursor := []byte(nil); ; {
		if asks(rw, c, fmt.Sprintf("?wait=50s&cursor=%s", cursor)) != nil {
			return
		}
		n, err := readAnswer(rw, page)
		if err != nil {
			return
		}
		_, after, _ := bytes.Cut(page[:n], []byte(`"next_cursor":"`))
		next, _, _ := bytes.Cut(after, []byte(`"`))
		if !bytes.Equal(next, cursor) {
			came()
		}
		cursor = append(cursor[:0], next...)
	}
}

// readAnswer reads the body of an answer with a length. The readers share the cores with the
// measured program, so that they leave no garbage.
func readAnswer(rw *bufio.ReadWriter, body []byte) (n int, err error) {
	for {
		line, err := rw.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			return io.ReadFull(rw, body[:n])
		}
		if length, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if n, err = strconv.Atoi(string(length)); err != nil || n > len(body) {
				return 0, bufio.ErrTooLong
			}
		}
	}
}

// settle waits until a process has nothing to do.
func settle(b *testing.B, pid int) {
	b.Helper()
	last := ""
	for still := 0; still < 10; time.Sleep(lookEach) { // longer than the delay of repeated polls
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			b.Fatal(err)
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if now := strings.Join(strings.Fields(after)[11:13], " "); now == last { // the time that it ran
			still++
		} else {
			last, still = now, 0
		}
	}
}
