package mcp

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation/fault"
)

// A client slower than this write timeout is disconnected.
const slowest = 30 * time.Second

// Proxies close connections that are idle for a minute.
const heartbeat = 15 * time.Second

const idle = ": here\n\n"

// answerWriter extends the deadlines of the connection, which the listener sets for short requests, and
// sends heartbeats while a request waits.
type answerWriter struct {
	http.ResponseWriter

	control *http.ResponseController
	stop    chan struct{}
	stopped fault.Group

	mu    sync.Mutex // the SDK writes whole events
	begun bool
}

// newAnswerWriter sends heartbeats if waits is true. The caller must call close.
func newAnswerWriter(w http.ResponseWriter, r *http.Request, waits bool) *answerWriter {
	a := &answerWriter{ResponseWriter: w, control: http.NewResponseController(w), stop: make(chan struct{})}
	if waits && strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		_ = a.control.SetReadDeadline(time.Time{}) // a connection without deadlines needs no reset
		a.extend()
		a.stopped.Go(a.beat)
	}
	return a
}

func (a *answerWriter) beat() {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.comment()
		case <-a.stop:
			return
		}
	}
}

// comment also sends the stream header if needed.
func (a *answerWriter) comment() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun {
		a.Header().Set("Content-Type", "text/event-stream")
		a.Header().Set("X-Accel-Buffering", "no") // prevents proxies from buffering events
		a.writeHeader(http.StatusOK)
	}
	if a.Header().Get("Content-Type") != "text/event-stream" {
		return
	}
	a.extend()
	_, _ = a.ResponseWriter.Write([]byte(idle)) // the client may be gone
	_ = a.control.Flush()
}

func (a *answerWriter) extend() {
	_ = a.control.SetWriteDeadline(time.Now().Add(slowest + heartbeat))
}

func (a *answerWriter) close() {
	close(a.stop)
	a.stopped.Wait()
}

func (a *answerWriter) writeHeader(status int) {
	if !a.begun {
		a.begun = true
		a.ResponseWriter.WriteHeader(status)
	}
}

// WriteHeader implements [http.ResponseWriter].
func (a *answerWriter) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answerWriter) Write(text []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = true
	a.extend()
	return a.ResponseWriter.Write(text)
}

// Flush implements [http.Flusher].
func (a *answerWriter) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.control.Flush()
}

// Unwrap gives the SDK access to the deadlines of the connection.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }
