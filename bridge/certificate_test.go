package bridge_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestCertificateIsServedToClientsOfToday(t *testing.T) {
	pair, err := bridgetest.NewCertificate("gw.example")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(leaf)
	served := bridge.NewCertificate(&pair, nil)
	for name, test := range map[string]struct {
		newest uint16 // that the client speaks
		good   bool
	}{
		"to a client of today":             {tls.VersionTLS13, true},
		"to one of yesterday":              {tls.VersionTLS12, true},
		"but not to one of long before it": {tls.VersionTLS11, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			go tls.Server(far, served.Config()).HandshakeContext(t.Context())
			client := tls.Client(near, &tls.Config{
				ServerName: "gw.example", RootCAs: trusted, MinVersion: tls.VersionTLS10, MaxVersion: test.newest,
			})
			if err := client.HandshakeContext(t.Context()); (err == nil) != test.good {
				t.Errorf("got %v; good: want %t", err, test.good)
			}
		})
	}
	if first, second := served.Config(), served.Config(); first == second {
		t.Error("two callers share a configuration that they may change")
	}
}

func TestCertificateIsMissingBeforeTheFirstIsIssued(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Client(near, &tls.Config{ServerName: "gw.example"}).HandshakeContext(t.Context())
	if err := tls.Server(far, bridge.NewCertificate(nil, nil).Config()).HandshakeContext(t.Context()); !errors.Is(err, bridge.ErrNoCertificate) {
		t.Errorf("got %v", err)
	}
}
