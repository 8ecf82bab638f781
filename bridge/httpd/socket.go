package httpd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// ownerOnly are the permissions of a socket: each process that can open it has full access.
const ownerOnly = 0o600

// probeTimeout bounds the probe for a process that serves a socket. A process on the same
// machine answers at once.
const probeTimeout = time.Second

// maxSocketBytes is how long the path of a socket may be, on the systems that allow
// the least.
const maxSocketBytes = 103

// listenSocket opens a unix socket for its owner alone. It replaces a socket that a dead
// process left, and returns an error for one that a process serves.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketBytes {
		return nil, fmt.Errorf("listen %s: a socket's path is at most %d bytes: choose a shorter one", path, maxSocketBytes)
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, fmt.Errorf("listen %s: %w", path, err)
	}
	// Linux gives the mode of the socket to the file that bind makes, so that the file is never
	// open to other users. On other systems the mode is set afterwards.
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

// clearSocket removes a socket that no process serves.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket: move it away or choose another path")
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
