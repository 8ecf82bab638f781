package inspircd_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// certificate returns a fresh one.
func certificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	cert, err := bridgetest.NewCertificate(name)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// serverTLS is how an IRC server speaks TLS, at either end. It pins nothing: the
// real one is for that.
func serverTLS(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true,
	}
}

func TestTLSPinsCertificates(t *testing.T) {
	secured := func(cert tls.Certificate, pinned string) func(*inspircd.Config, *bridgetest.IRCdConfig) {
		return func(cfg *inspircd.Config, peer *bridgetest.IRCdConfig) {
			peer.TLS = serverTLS(cert)
			cfg.TLS, cfg.TLSFingerprint = true, pinned
		}
	}
	theirs, others := certificate(t, "irc.lab.example"), certificate(t, "irc.lab.example")
	t.Run("links to the server that has the pinned certificate", func(t *testing.T) {
		h, peer := linked(t, secured(theirs, bridgetest.Fingerprint(theirs)))
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t)
	})
	t.Run("says nothing to a server that has another one", func(t *testing.T) {
		got := refused(t, secured(theirs, bridgetest.Fingerprint(others)))
		if !strings.Contains(got, "does not match tls_fingerprint: "+bridgetest.Fingerprint(theirs)) {
			t.Errorf("error %q", got)
		}
	})
	t.Run("takes a server that has the pinned certificate", func(t *testing.T) {
		h, peer := dialled(t, secured(theirs, bridgetest.Fingerprint(theirs)))
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t)
	})
	t.Run("turns away a server that has another one", func(t *testing.T) {
		h, peer := listening(t, secured(theirs, bridgetest.Fingerprint(others)))
		ring(t, h, peer)
		awaitLog(t, h, "does not match tls_fingerprint")
	})
	t.Run("turns away a server that speaks plain", func(t *testing.T) {
		h, peer := listening(t, func(cfg *inspircd.Config, _ *bridgetest.IRCdConfig) {
			cfg.TLS, cfg.TLSFingerprint = true, bridgetest.Fingerprint(theirs)
		})
		ring(t, h, peer)
		awaitLog(t, h, "first record does not look like a TLS handshake")
	})
}
