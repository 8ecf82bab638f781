package server

import (
	"os"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/configs"
)

const lastErrorFile = "last-error"

// LastError stores the last logged error in a file, so that baton doctor can show it for a stopped
// gateway.
type LastError struct {
	path string

	mu      sync.Mutex
	written time.Time
	final   bool // the file has the error that ended the gateway
}

// NewLastError returns the LastError for a configuration. It does no I/O.
func NewLastError(file *configs.File) *LastError { return &LastError{path: file.Path(lastErrorFile)} }

// Write stores a log line, at most one per second.
func (l *LastError) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !l.final && now.Sub(l.written) > time.Second {
		l.written = now
		_ = os.WriteFile(l.path, line, 0o600) // the log has it too
	}
	return len(line), nil
}

// Set stores the error that ended the gateway.
func (l *LastError) Set(text string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = true
	_ = os.WriteFile(l.path, []byte(now.UTC().Format(time.RFC3339)+" "+text+"\n"), 0o600) // it is printed too
}

// Read returns the stored line, or "" if there is none.
func (l *LastError) Read() string {
	text, _ := os.ReadFile(l.path) // an unreadable file counts as empty
	return strings.TrimSpace(string(text))
}
