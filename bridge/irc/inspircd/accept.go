package inspircd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation/fault"
)

// The limit includes the peer's connection. Each costs a line of at most [maxLineBytes] and three
// goroutines.
const maxStrangers = 8

// Until the authenticated connection ends, runListening rejects others.
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
	_ = l.listener.SetDeadline(time.Unix(0, 0)) // ends Accept, but keeps the port
	d.running.Wait()
	if ctx.Err() != nil {
		err = errors.Join(err, l.Close())
	}
	return err
}

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

// Close releases the port of a listening link. Call it after the last Run.
func (l *Link) Close() error {
	if l.listener == nil {
		return nil
	}
	err := l.listener.Close()
	l.listener = nil
	return err
}

type door struct {
	link    *Link
	running fault.Group
	arrived chan *session // authenticated as the peer
	taken   chan struct{} // closed once one of them is served
}

func (d *door) first(ctx context.Context, up func()) error {
	select {
	case s := <-d.arrived:
		close(d.taken)
		return s.run(ctx, up)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

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
			d.link.log.LogAttrs(ctx, slog.LevelInfo, "connection refused", slog.String("reason", "too many unauthenticated connections"))
			_ = conn.Close()
		}
	}
}

// rest waits before the next Accept, because a lack of file descriptors would fail again at once.
func (d *door) rest(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

func (d *door) admit(ctx context.Context, conn net.Conn) {
	from := slog.String("from", conn.RemoteAddr().String())
	s, err := d.link.handshake(ctx, conn)
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

// openTLS returns nil without TLS. Each side identifies the other only by its certificate, because
// the operators exchanged fingerprints.
func openTLS(cfg Config, cert *bridge.Certificate) (*tls.Config, error) {
	switch {
	case !cfg.TLS && cfg.TLSFingerprint != "":
		return nil, &bridge.KeyError{Key: "tls_fingerprint", Why: "has no effect without tls"}
	case !cfg.TLS:
		return nil, nil
	case !validFingerprint(cfg.TLSFingerprint):
		return nil, &bridge.KeyError{Key: "tls_fingerprint", Why: "want 64 lower-case hex characters, the SHA-256 of the other server's certificate"}
	case cert == nil:
		return nil, &bridge.KeyError{Key: "tls", Why: "needs a certificate of this gateway: see [tls]"}
	}
	secure := cert.Config()
	secure.ServerName, secure.ClientAuth = cfg.ServerName, tls.RequireAnyClientCert
	secure.InsecureSkipVerify = true // VerifyConnection requires one certificate, which is stricter
	secure.VerifyConnection = func(state tls.ConnectionState) error { return checkFingerprint(state, cfg.TLSFingerprint) }
	return secure, nil
}

func validFingerprint(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == s
}

func checkFingerprint(state tls.ConnectionState, want string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("it presented no certificate")
	}
	sum := sha256.Sum256(state.PeerCertificates[0].Raw)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("its certificate does not match tls_fingerprint: %s", got)
	}
	return nil
}

func (l *Link) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if l.tls == nil {
		return conn, nil
	}
	var secured *tls.Conn
	if l.dials() {
		secured = tls.Client(conn, l.tls)
	} else {
		secured = tls.Server(conn, l.tls)
	}
	if err := secured.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, nil
}
