package spanningtree

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	"baton/bridge"
)

// openTLS returns the TLS configuration of a link, nil for one without. Each side
// knows the other only by its certificate: names and authorities mean nothing
// between two servers whose operators told each other their fingerprints.
func openTLS(cfg Config, cert *tls.Certificate) (*tls.Config, error) {
	switch {
	case !cfg.TLS && cfg.TLSFingerprint != "":
		return nil, &bridge.KeyError{Key: "tls_fingerprint", Why: "means nothing without tls"}
	case !cfg.TLS:
		return nil, nil
	case !validFingerprint(cfg.TLSFingerprint):
		return nil, &bridge.KeyError{Key: "tls_fingerprint", Why: "want 64 lower-case hex characters, the SHA-256 of their certificate"}
	case cert == nil:
		return nil, &bridge.KeyError{Key: "tls", Why: "needs a certificate of ours: see [tls]"}
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		Certificates:       []tls.Certificate{*cert},
		ServerName:         cfg.ServerName,
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection holds the peer to one certificate, which is stricter
		VerifyConnection:   func(state tls.ConnectionState) error { return checkFingerprint(state, cfg.TLSFingerprint) },
	}, nil
}

func validFingerprint(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == s
}

// checkFingerprint holds a peer to its pinned certificate.
func checkFingerprint(state tls.ConnectionState, want string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("it showed no certificate")
	}
	sum := sha256.Sum256(state.PeerCertificates[0].Raw)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("its certificate is another one than tls_fingerprint: %s", got)
	}
	return nil
}

// secure returns a connection on which TLS is spoken, where the link wants that.
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
			err = context.Cause(ctx) // which says what took too long
		}
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, nil
}
