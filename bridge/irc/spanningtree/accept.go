package spanningtree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"baton/federation/fault"
)

// maxStrangers bounds the connections that have not authenticated yet. One is
// the peer's; each costs a line of at most [maxLineBytes] and three goroutines.
const maxStrangers = 8

// runListening is Run of a link that is dialled. It serves the first connection that
// proves to be the peer, and turns away others that do so while it lasts.
func (l *Link) runListening(ctx context.Context, up func()) error {
	if err := l.listen(ctx); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	accepting, stop := context.WithCancel(ctx)
	d := &door{link: l, arrived: make(chan *session), taken: make(chan struct{})}
	d.running.Caught = fail
	d.running.Go(func() { d.open(accepting) })
	err := d.first(ctx, up)
	stop()
	_ = l.listener.SetDeadline(time.Unix(0, 0)) // ends Accept, and leaves the port ours
	d.running.Wait()
	if ctx.Err() != nil {
		err = errors.Join(err, l.Close())
	}
	return err
}

// listen takes the port, where it is not ours already.
func (l *Link) listen(ctx context.Context) error {
	if l.listener != nil {
		return l.listener.SetDeadline(time.Time{})
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", l.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", l.cfg.Listen, err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return errors.Join(fmt.Errorf("listen on %s: a %T", l.cfg.Listen, listener), listener.Close())
	}
	l.listener = tcp
	return nil
}

// Close gives up the port of a link that is dialled. Call it after the last Run,
// and only where that did not end with its context.
func (l *Link) Close() error {
	if l.listener == nil {
		return nil
	}
	err := l.listener.Close()
	l.listener = nil
	return err
}

// door is where peers come in during one Run.
type door struct {
	link    *Link
	running fault.Group
	arrived chan *session // it has proved to be the peer
	taken   chan struct{} // closed once one of them is served
}

// first serves the first peer that comes.
func (d *door) first(ctx context.Context, up func()) error {
	select {
	case s := <-d.arrived:
		close(d.taken)
		return s.run(ctx, up)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open accepts until ctx ends.
func (d *door) open(ctx context.Context) {
	strangers := make(chan struct{}, maxStrangers)
	for {
		conn, err := d.link.listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			d.link.log.LogAttrs(ctx, slog.LevelWarn, "cannot accept", slog.Any("err", err))
			d.rest(ctx)
			continue
		}
		select {
		case strangers <- struct{}{}:
			d.running.Go(func() {
				defer func() { <-strangers }()
				d.admit(ctx, conn)
			})
		default:
			d.link.log.LogAttrs(ctx, slog.LevelInfo, "connection refused", slog.String("reason", "too many strangers"))
			_ = conn.Close()
		}
	}
}

// rest waits before the next try to accept: what fails now, for want of file
// descriptors, fails again at once.
func (d *door) rest(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

// admit lets a connection in that proves to be the peer, if it is the first.
func (d *door) admit(ctx context.Context, conn net.Conn) {
	from := slog.String("from", conn.RemoteAddr().String())
	s, err := d.link.meet(ctx, conn)
	if err != nil {
		d.link.log.LogAttrs(ctx, slog.LevelInfo, "connection refused", from, slog.Any("err", err))
		return
	}
	select {
	case d.arrived <- s:
		return
	case <-d.taken:
		d.link.log.LogAttrs(ctx, slog.LevelInfo, "connection refused", from, slog.String("reason", "the peer is linked already"))
		s.lastWord(fmt.Sprintf("ERROR :Server %s already exists", d.link.cfg.ServerName))
	case <-ctx.Done():
	}
	s.End()
}
