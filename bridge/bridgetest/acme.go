package bridgetest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// Pebble is the ACME server of Let's Encrypt for tests. It resolves each name to 127.0.0.1.
type Pebble struct {
	Directory string
	CAFile    string
	Roots     *x509.CertPool // for issued certificates

	// Broken makes the server answer each request with status 500.
	Broken atomic.Bool
	// Orders counts accepted orders. Pebble rejects some requests at random, because of their
	// nonces.
	Orders atomic.Int64
}

// PebbleConfig is the configuration of a [Pebble].
type PebbleConfig struct {
	HTTPPort, TLSPort int           // validation ports instead of 80 and 443; 0 for a closed port
	Validity          time.Duration // of certificates; 0 for the default
}

// NewPebble starts an ACME server that runs until the test ends. The test must not be parallel: the
// server reads the environment.
func NewPebble(tb testing.TB, cfg PebbleConfig) *Pebble {
	tb.Helper()
	tb.Setenv("PEBBLE_VA_NOSLEEP", "1")
	tb.Setenv("PEBBLE_AUTHZREUSE", "0") // each order has challenges
	quiet := log.New(io.Discard, "", 0)
	address := federationtest.FreeAddr(tb)
	resolver, err := challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{address}, Log: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	resolver.SetDefaultDNSIPv4("127.0.0.1")
	resolver.SetDefaultDNSIPv6("")
	resolver.Run()
	tb.Cleanup(resolver.Shutdown)

	for _, port := range []*int{&cfg.HTTPPort, &cfg.TLSPort} {
		if *port == 0 {
			*port = federationtest.FreePort(tb)
		}
	}
	memory := db.NewMemoryStore()
	issuing := ca.New(quiet, memory, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: uint64(cfg.Validity / time.Second)}}) //nolint:gosec // a test has no negative one
	front := wfe.New(quiet, memory, va.New(quiet, cfg.HTTPPort, cfg.TLSPort, true, address, memory), issuing, []string{"pebble.example"}, true, false, 1, 1)
	p := &Pebble{Roots: x509.NewCertPool()}
	handler := front.Handler()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.Broken.Load() {
			http.Error(w, `{"type":"urn:ietf:params:acme:error:serverInternal","detail":"out of order"}`, http.StatusInternalServerError)
			return
		}
		answer := &statusWriter{ResponseWriter: w}
		handler.ServeHTTP(answer, r)
		if r.URL.Path == "/order-plz" && answer.status == http.StatusCreated {
			p.Orders.Add(1)
		}
	}))
	tb.Cleanup(server.Close)
	p.Directory, p.CAFile = server.URL+wfe.DirectoryPath, filepath.Join(tb.TempDir(), "pebble.pem")
	p.Roots.AddCert(issuing.GetRootCert(0).Cert)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(p.CAFile, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return p
}

type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
