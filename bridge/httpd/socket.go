package httpd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// ownerOnly is the mode of a socket. Any process that can open it has full access.
const ownerOnly = 0o600

// probeTimeout bounds the probe for a process that serves a socket. A live process answers at once.
const probeTimeout = time.Second

// maxSocketBytes is the path limit of the strictest systems.
const maxSocketBytes = 103

// listenSocket opens a unix socket for its owner only. It replaces the socket of a dead process,
// and returns an error if the socket is in use.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketBytes {
		return nil, fmt.Errorf("listen %s: a socket's path is at most %d bytes: choose a shorter one", path, maxSocketBytes)
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, fmt.Errorf("listen %s: %w", path, err)
	}
	// On Linux, bind applies the socket's mode to the file, so that other users can never open it. On
	// other systems, the mode is set afterwards.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var mode error
		err := c.Control(func(fd uintptr) { mode = syscall.Fchmod(int(fd), ownerOnly) })
		if errors.Is(mode, syscall.EINVAL) {
			mode = nil
		}
		return errors.Join(err, mode)
	}}
	listener, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			err = errno
		}
		return nil, fmt.Errorf("listen %s: %w", path, err)
	}
	if err := os.Chmod(path, ownerOnly); err != nil {
		return nil, errors.Join(fmt.Errorf("listen %s: %w", path, err), listener.Close())
	}
	return listener, nil
}

const remadeEvery = time.Second

// remade is a unix socket listener that is recreated if its file is deleted. Otherwise no command
// could reach the gateway until its next start.
type remade struct {
	path    string
	log     *slog.Logger
	closing chan struct{} // closed by Close

	mu      sync.Mutex
	current net.Listener
	closed  bool
}

func newRemade(ctx context.Context, path string, log *slog.Logger) (*remade, error) {
	listener, err := listenSocket(ctx, path)
	if err != nil {
		return nil, err
	}
	return &remade{path: path, log: log, closing: make(chan struct{}), current: listener}, nil
}

// Accept implements [net.Listener].
func (r *remade) Accept() (net.Conn, error) {
	for {
		r.mu.Lock()
		listener := r.current
		r.mu.Unlock()
		conn, err := listener.Accept()
		if err == nil {
			return conn, nil
		}
		r.mu.Lock()
		same := r.current == listener
		r.mu.Unlock()
		if same {
			return nil, err
		}
	}
}

// Addr implements [net.Listener].
func (r *remade) Addr() net.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Addr()
}

// Close implements [net.Listener].
func (r *remade) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	return r.current.Close()
}

func (r *remade) watch(ctx context.Context) {
	tick := time.NewTicker(remadeEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-r.closing:
			return
		}
		made, err := r.makeAgain(ctx)
		switch {
		case err != nil && !failing:
			r.log.LogAttrs(ctx, slog.LevelError, "deleted socket not recreated", slog.Any("err", err))
		case made:
			r.log.LogAttrs(ctx, slog.LevelWarn, "deleted socket recreated", slog.String("path", r.path))
		}
		failing = err != nil
	}
}

func (r *remade) makeAgain(ctx context.Context) (made bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := os.Lstat(r.path); r.closed || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	listener, err := listenSocket(ctx, r.path)
	if err != nil {
		return false, err
	}
	old := r.current
	r.current = listener
	if unix, ok := old.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // the file belongs to the new socket
	}
	_ = old.Close()
	return true, nil
}

func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file is not a socket: move it away or choose another path")
	}
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%w: stop the other program or choose another path", syscall.EADDRINUSE)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
