package httpd_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/httpd"
)

// socketServer returns a server on a socket that answers with the user of the caller.
func socketServer(path string) *httpd.Server {
	tell := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
	return httpd.New(httpd.Config{Socket: path}, tell, slog.New(slog.DiscardHandler))
}

// askSocket sends one request over a socket.
func askSocket(t *testing.T, path string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dialSocket reports whether a server listens: a socket is in its folder before that.
func dialSocket(t *testing.T, path string) bool {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	return err == nil && conn.Close() == nil
}

func TestSocketIsPrivateAndNamesItsCaller(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server := socketServer(path)
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	if who, want := askSocket(t, path), "uid:"+strconv.Itoa(os.Getuid()); who != want {
		t.Errorf("who asks is %q, want %q", who, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestSocketOfADeadProcessIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	server := socketServer(path)
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

func TestSocketInUseIsATakenAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first := socketServer(path)
	if err := first.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := socketServer(path).Listen(t.Context()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want an address in use, with the path", err)
	}
}

func TestSocketRefusesAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := socketServer(path).Listen(t.Context()); err == nil {
		t.Error("a file was replaced by a socket")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if err := socketServer(filepath.Join(dir, strings.Repeat("s", 120))).Listen(t.Context()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a path that no socket can have: %v", err)
	}
}

func TestSocketIsMadeAgainAfterItWasDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	server := socketServer(path)
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	for range 2 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			info, err := os.Lstat(path)
			if err == nil && info.Mode() == fs.ModeSocket|0o600 && dialSocket(t, path) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the socket is not made again")
			}
		}
		if got := askSocket(t, path); got == "" {
			t.Error("the new socket does not answer")
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the end leaves %s: %v", path, err)
	}
}
