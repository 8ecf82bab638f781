package postgrestest

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Far returns a connection string that simulates a distant server. It delays messages to the
// server, but not its answers.
func (s *Server) Far(tb testing.TB, dsn string, later time.Duration) string {
	tb.Helper()
	folder := tb.TempDir()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "unix", filepath.Join(folder, Socket))
	if err != nil {
		tb.Fatalf("listen for a far server: %v", err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.carry(near, later) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return strings.Replace(dsn, s.folder, folder, 1)
}

func (s *Server) carry(near net.Conn, later time.Duration) {
	defer near.Close()
	server, err := net.Dial("unix", filepath.Join(s.folder, Socket)) //nolint:noctx // it ends with the near one
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, server)
		_ = near.Close()
	})
	_, _ = io.Copy(late{server, later}, near)
	_ = server.Close()
	back.Wait()
}

type late struct {
	io.Writer

	by time.Duration
}

// Write implements [io.Writer].
func (l late) Write(text []byte) (int, error) {
	time.Sleep(l.by)
	return l.Writer.Write(text)
}
