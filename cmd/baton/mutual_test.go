package main_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// certifiedRegistry makes a house the registry of a domain that shows others its
// certificate, and wants theirs of one of the given authorities.
func certifiedRegistry(t *testing.T, h *house, domain string, own certified, authorities string, other *house, otherDomain string) {
	t.Helper()
	h.secure, other.secure = true, true
	h.configure(t, fmt.Sprintf(`[tls]
cert_file = %q
key_file = %q
[fetch]
allow_private = true
[airc]
domain = %q
[airc.mtls]
ca_file = %q
[[airc.peers]]
domain = %q
url = %q
`, own.certFile, own.keyFile, domain, authorities, otherDomain, strings.Replace(other.url(), "127.0.0.1", "localhost", 1)))
}

// authoritiesOf writes certificates into one file.
func authoritiesOf(t *testing.T, of ...certified) string {
	t.Helper()
	var text []byte
	for _, one := range of {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.certificate.Certificate[0]})...)
	}
	path := filepath.Join(t.TempDir(), "authorities.pem")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// as returns a transport to a gateway over TLS, showing a certificate if there
// is one.
func as(t *testing.T, gateway certified, shown ...certified) *http.Transport {
	t.Helper()
	leaf, err := x509.ParseCertificate(gateway.certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(leaf)
	for _, one := range shown {
		config.Certificates = append(config.Certificates, one.certificate)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// spec: airc-v0.1.1 §11.4
func TestMutualTLSBetweenRegistries(t *testing.T) {
	t.Parallel()
	a, b := newHouse(t), newHouse(t)
	ofA, ofB, ofC := certify(t, a, "a.test", "localhost"), certify(t, b, "b.test", "localhost"), certify(t, b, "c.test", "localhost")
	authorities := authoritiesOf(t, ofA, ofB, ofC)
	certifiedRegistry(t, a, "a.test", ofA, authorities, b, "b.test")
	certifiedRegistry(t, b, "b.test", ofB, authorities, a, "a.test")
	b.start(t)

	// A caller that claims to be a.test without proof.
	stranger := certify(t, a, "d.test", "localhost")
	relay := []byte(`{"origin_registry":"a.test","from":"@scout_7@a.test","to":"@amy_1@b.test","message_id":"msg_12345678","body":"hello"}`)
	for name, transport := range map[string]*http.Transport{
		"no certificate": as(t, ofB), "that of another registry": as(t, ofB, ofC), "that of another authority": as(t, ofB, stranger),
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url()+"/federation/relay", bytes.NewReader(relay))
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Errorf("with %s: %v", name, err)
			continue
		}
		if response.Body.Close(); response.StatusCode != http.StatusForbidden {
			t.Errorf("with %s: %s, want 403", name, response.Status)
		}
	}

	a.start(t)
	scout, amy := bridgetest.NewAgent(a.url(), "scout_7", bytes.Repeat([]byte{1}, 32)), bridgetest.NewAgent(b.url(), "amy_1", bytes.Repeat([]byte{2}, 32))
	scout.Transport, amy.Transport = as(t, ofA), as(t, ofB)
	for _, agent := range []*bridgetest.Agent{scout, amy} {
		if err := agent.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if status, answer, err := scout.Send(t.Context(), "amy_1@b.test", "hello", nil); err != nil || status != http.StatusAccepted {
		t.Fatal(status, answer, err)
	}
	await(t, "first contact over TLS", func() bool {
		raws, _, err := amy.Inbox(t.Context(), "")
		return err == nil && len(raws) == 1
	})
	for _, h := range []*house{a, b} {
		if code := h.stop(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	}
}

func TestMutualTLSNeedsItsListener(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	authorities := authoritiesOf(t, certify(t, h, "a.test"))
	h.configure(t, fmt.Sprintf("[airc.mtls]\nca_file = %q\n", authorities))
	h.launch(t)
	if code := h.wait(t); code != 1 || !strings.Contains(h.told(t), "airc.mtls.ca_file: requires http.tls") {
		t.Errorf("exit code %d, told %q", code, h.told(t))
	}
}
