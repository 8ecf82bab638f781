package client_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/irc/client"
)

// quiet is a connection whose other end registers, and then only listens. It has no socket, because
// most systems do not give a test 10,000.
type quiet struct {
	net.Conn // nil: nothing else is asked of it

	words   *bytes.Reader // of the client
	said    sync.Once
	in      chan struct{} // closed when the client has been welcomed
	steps   *atomic.Int64 // TAGMSGs that it has received, from others too
	closed  chan struct{}
	closing sync.Once
}

func newQuiet(steps *atomic.Int64, lines string) *quiet {
	return &quiet{words: bytes.NewReader([]byte(lines)), in: make(chan struct{}), steps: steps, closed: make(chan struct{})}
}

// Read implements net.Conn.
func (q *quiet) Read(into []byte) (int, error) {
	if n, err := q.words.Read(into); err == nil {
		return n, nil
	}
	<-q.closed
	return 0, net.ErrClosed
}

// Write implements net.Conn.
func (q *quiet) Write(lines []byte) (int, error) {
	q.steps.Add(int64(bytes.Count(lines, []byte(" TAGMSG "))))
	if bytes.Contains(lines, []byte(" 376 ")) {
		q.said.Do(func() { close(q.in) })
	}
	return len(lines), nil
}

// Close implements net.Conn.
func (q *quiet) Close() error {
	q.closing.Do(func() { close(q.closed) })
	return nil
}

// RemoteAddr implements net.Conn.
func (q *quiet) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// SetWriteDeadline implements net.Conn.
func (q *quiet) SetWriteDeadline(time.Time) error { return nil }

// fill connects clients, each of which sends a line.
func (h *house) fill(b *testing.B, n int, caps, then string) *atomic.Int64 {
	b.Helper()
	var steps atomic.Int64
	for i := range n {
		q := newQuiet(&steps, fmt.Sprintf("CAP REQ :%s\r\nNICK q%d\r\nUSER q 0 * :q\r\nCAP END\r\n%s", caps, i, then))
		h.link.Attach(b.Context(), q)
		<-q.in
	}
	return &steps
}

// idleConfig has room for all clients, and sends no PING.
func idleConfig() client.Config {
	cfg := testConfig()
	cfg.MaxClients, cfg.PingInterval = 20_000, time.Hour
	return cfg
}

// maxIdleBytes bounds the memory of a silent client.
const maxIdleBytes = 20 << 10

// BenchmarkIdleClients answers one client among 10,000 others, and reports the cost of each.
func BenchmarkIdleClients(b *testing.B) {
	const clients = 10_000
	h := start(b, idleConfig())
	before := inUse()
	h.fill(b, clients, "message-tags server-time", "")
	each := float64(inUse()-before) / clients
	p := dial(b, h.addr)
	p.register(b, "busy", "")
	pings := 0
	for b.Loop() {
		if pings++; pings%burst == 0 { // it would be read more slowly from here on
			b.StopTimer()
			p = dial(b, h.addr)
			p.register(b, fmt.Sprintf("busy%d", pings), "")
			b.StartTimer()
		}
		p.say(b, "PING x")
		p.until(b, "*PONG*")
	}
	b.ReportMetric(each, "B/client")
	if each > maxIdleBytes {
		b.Errorf("an idle client costs %.0f bytes, want at most %d", each, maxIdleBytes)
	}
}

// burst is how many lines one client sends before the rate limit applies.
const burst = 90

// inUse returns the bytes of memory in use.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// BenchmarkTagmsgToFifty has clients write in a channel of fifty, and counts the messages sent to
// all of them.
func BenchmarkTagmsgToFifty(b *testing.B) {
	const members = 50
	h := start(b, idleConfig())
	heard := h.fill(b, members, "message-tags server-time account-tag", "JOIN #ops\r\n")
	var p *peer
	said := 0
	for b.Loop() {
		if said%burst == 0 {
			b.StopTimer()
			if p != nil {
				_ = p.conn.Close()
			}
			near, far := net.Pipe()
			h.link.Attach(b.Context(), far)
			p = &peer{conn: near, lines: bufio.NewReader(near)}
			p.register(b, fmt.Sprintf("speaker%d", said), "message-tags")
			p.say(b, "JOIN #ops")
			p.until(b, "* 366 *")
			go func(lines *bufio.Reader) { _, _ = lines.WriteTo(io.Discard) }(p.lines)
			b.StartTimer()
		}
		said++
		p.say(b, "@+example=1;+draft/react=yes TAGMSG #ops")
	}
	want := int64(said * members)
	for heard.Load() < want {
		runtime.Gosched()
	}
	b.ReportMetric(float64(said)/b.Elapsed().Seconds(), "TAGMSG/s")
}
