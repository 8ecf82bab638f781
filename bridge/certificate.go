package bridge

import (
	"crypto/tls"
	"errors"
	"slices"
	"sync/atomic"
)

// ErrNoCertificate is the error of a TLS handshake before the first certificate was issued.
var ErrNoCertificate = errors.New("no certificate has been issued yet: see baton doctor")

// ChallengeProtocol is the protocol of the TLS handshake in a TLS-ALPN-01 challenge.
//
// spec: RFC 8737 §6.2
const ChallengeProtocol = "acme-tls/1"

// Certificate is the certificate of [tls], shared by all listeners and links. A new handshake
// presents the current one. Its methods may be called concurrently.
type Certificate struct {
	current   atomic.Pointer[tls.Certificate]
	challenge func(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// NewCertificate returns a Certificate with a first certificate, or nil if none has been issued
// yet. The function challenge returns the certificate for a TLS-ALPN-01 challenge; it is nil
// without ACME.
func NewCertificate(first *tls.Certificate, challenge func(hello *tls.ClientHelloInfo) (*tls.Certificate, error)) *Certificate {
	c := &Certificate{challenge: challenge}
	c.current.Store(first)
	return c
}

// Set replaces the current certificate. Open connections are not affected.
func (c *Certificate) Set(next *tls.Certificate) { c.current.Store(next) }

// Current returns the current certificate, or nil if none has been issued yet.
func (c *Certificate) Current() *tls.Certificate { return c.current.Load() }

// Config returns a new TLS configuration with the certificate, for a listener or a client. A
// listener accepts the protocols.
func (c *Certificate) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c.challenge != nil && slices.Equal(hello.SupportedProtos, []string{ChallengeProtocol}) {
				return c.challenge(hello)
			}
			return c.get()
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.get() },
	}
}

func (c *Certificate) get() (*tls.Certificate, error) {
	if now := c.current.Load(); now != nil {
		return now, nil
	}
	return nil, ErrNoCertificate
}
