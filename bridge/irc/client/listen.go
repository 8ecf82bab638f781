package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"baton/bridge"
	"baton/bridge/irc"
	"baton/federation/fault"
)

// The rate at which lines of one client are read: a burst that holds the lines of a
// connecting client, and then as fast as a person types. The unread lines stay in the
// connection, and none is lost.
const (
	linesPerSecond = 20
	linesBurst     = 100
)

// port is one listener.
type port struct {
	net.Listener

	secure bool
}

// key returns the key of the configuration that a port is of.
func (p port) key() string {
	if p.secure {
		return "tls_listen"
	}
	return "listen"
}

// listen takes the ports.
func (l *Link) listen(ctx context.Context) ([]port, error) {
	var lc net.ListenConfig
	var ports []port
	for _, p := range []struct {
		address string
		secure  bool
	}{{l.cfg.Listen, false}, {l.cfg.TLSListen, true}} {
		if p.address == "" {
			continue
		}
		listener, err := lc.Listen(ctx, "tcp", p.address)
		if err != nil {
			for _, taken := range ports {
				err = errors.Join(err, taken.Close())
			}
			return nil, fmt.Errorf("listen for IRC clients on %s: %w", p.address, err)
		}
		ports = append(ports, port{listener, p.secure})
	}
	return ports, nil
}

// accept takes connections until ctx ends, and closes the port.
func (s *server) accept(ctx context.Context, p port) error {
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	for {
		conn, err := p.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close() // the connection is unused
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.log.LogAttrs(ctx, slog.LevelWarn, "cannot accept", slog.Any("err", err))
			select {
			case <-time.After(time.Second): // what fails for want of files fails again at once
			case <-ctx.Done():
			}
			continue
		}
		s.running.Go(func() {
			err := fault.Catch(func() error { s.serve(ctx, conn, p.secure); return nil })
			if s.link.ports.Metrics.Fault(ctx, s.log, "client of link "+s.link.Name(), err) {
				_ = conn.Close() // only this client is disconnected
			}
		})
	}
}

// serve is the reader of one connection, from its first byte to its end.
func (s *server) serve(ctx context.Context, conn net.Conn, secure bool) {
	conn, addr, from := s.link.origin(ctx, conn)
	u := newUser(addr, from)
	u.secure, u.handshaking = secure, secure
	if secure {
		conn = tls.Server(conn, s.link.tls)
	}
	u.wire = newStream(conn)
	if why := s.letIn(ctx, u); why != "" {
		s.turnAway(ctx, u, why)
		return
	}
	if err := s.secure(ctx, conn); err != nil {
		s.leave(u, err.Error())
		return
	}
	s.post(func() { u.handshaking = false })
	s.read(bridge.WithSubnet(ctx, from), u)
}

// secure makes the TLS handshake, in the time that a client has to register.
func (s *server) secure(ctx context.Context, conn net.Conn) error {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.link.cfg.RegistrationTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	return nil
}

// read hands the lines of a client to the owner, one at a time, and does between them
// what the owner leaves to it.
func (s *server) read(ctx context.Context, u *user) {
	pace := rate.NewLimiter(linesPerSecond, linesBurst)
	for {
		text, err := u.wire.ReadLine()
		m, why := parse(text, err)
		if err != nil && why == "" {
			s.leave(u, "Connection closed")
			return
		}
		if !s.post(func() { s.take(ctx, u, m, why) }) {
			return
		}
		if work := <-u.turn; work != nil {
			work()
		}
		if pace.Wait(ctx) != nil {
			return
		}
	}
}

// leave has the owner let a client go.
func (s *server) leave(u *user, why string) {
	s.post(func() { s.quit(u, why) })
	_ = u.wire.Close() // its reader has ended
}

// newUser returns a client that has said nothing, with its address as text, and as limits
// count it.
func newUser(addr string, from netip.Prefix) *user {
	return &user{
		addr: addr, from: from, turn: make(chan func(), 1), seen: irc.Recent{Most: maxSeen},
		channels: map[string]*channel{}, invited: map[string]bool{}, watching: map[string]bool{},
	}
}

// hostPart returns an address without its port.
func hostPart(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// loopback reports whether an address is of this machine.
func loopback(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return err == nil && ip.IsLoopback()
}
