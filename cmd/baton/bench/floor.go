package bench

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const kib = 1024

func (r *run) measureFloors(context.Context) error {
	verify, err := verifier()
	if err != nil {
		return err
	}
	r.verify = verify
	r.report.add(Row{Name: "verifications", What: "bare Ed25519 verifications of 1 KiB, all cores", Value: rate(r.Floor, runtime.GOMAXPROCS(0), verify), Unit: "/s"})
	file, err := os.Create(filepath.Join(r.dir, "floor"))
	if err != nil {
		return err
	}
	block := make([]byte, kib)
	syncs := rate(r.Floor, 1, func() error {
		_, err := file.Write(block)
		return errors.Join(err, file.Sync())
	})
	r.report.add(Row{Name: "fsyncs", What: "appends of 1 KiB with fsync, one after the other", Value: syncs, Unit: "/s"})
	return file.Close()
}

// rate returns how many calls of do succeed per second in this many goroutines. Each goroutine
// calls it at least once.
func rate(lasts time.Duration, goroutines int, do func() error) float64 {
	var done atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		all.Go(func() {
			for again := true; again; again = time.Since(begun) < lasts {
				if do() == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds()
}

func verifier() (func() error, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	message := make([]byte, kib)
	signature := ed25519.Sign(private, message)
	return func() error {
		if !ed25519.Verify(public, message, signature) {
			return errors.New("a good signature is bad")
		}
		return nil
	}, nil
}

// relay represents a gateway between two sockets: it reads a KiB from one, appends it to a file,
// and writes it to the other.
type relay struct {
	in, out  net.Conn
	running  sync.WaitGroup
	closings []io.Closer
}

// The caller closes the relay.
func openRelay(ctx context.Context, dir string) (_ *relay, err error) {
	r := &relay{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.closings = append(r.closings, listener)
	var conns []net.Conn // near and far ends of the writing and of the reading connection
	for range 2 {
		near, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			return nil, err
		}
		far, err := listener.Accept()
		if err != nil {
			return nil, errors.Join(err, near.Close())
		}
		conns = append(conns, near, far)
		r.closings = append(r.closings, near, far)
	}
	file, err := os.Create(filepath.Join(dir, "relay")) //nolint:gosec // the folder is of this run
	if err != nil {
		return nil, err
	}
	r.closings = append(r.closings, file)
	r.in, r.out = conns[0], conns[2]
	r.running.Go(func() { carry(conns[1], file, conns[3]) })
	return r, nil
}

func carry(from io.Reader, file *os.File, to io.Writer) {
	block := make([]byte, kib)
	for {
		if _, err := io.ReadFull(from, block); err != nil {
			return
		}
		if _, err := file.Write(block); err != nil || file.Sync() != nil {
			return
		}
		if _, err := to.Write(block); err != nil {
			return
		}
	}
}

func (r *relay) cross() (time.Duration, error) {
	block, begun := make([]byte, kib), time.Now()
	if _, err := r.in.Write(block); err != nil {
		return 0, fmt.Errorf("cross bare sockets: %w", err)
	}
	if _, err := io.ReadFull(r.out, block); err != nil {
		return 0, fmt.Errorf("cross bare sockets: %w", err)
	}
	return time.Since(begun), nil
}

// Close ends the relay.
func (r *relay) Close() error {
	var errs []error
	for _, each := range r.closings {
		errs = append(errs, each.Close())
	}
	r.running.Wait()
	return errors.Join(errs...)
}
