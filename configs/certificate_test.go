package configs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/configs"
)

// newPair returns a certificate for gw.example, signed by itself, and its key, both
// in PEM.
func newPair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "gw.example"},
		DNSNames:     []string{"gw.example"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// certificates returns a folder with pairs and what looks like one.
func certificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cert, key := newPair(t)
	_, otherKey := newPair(t)
	for name, file := range map[string]struct {
		content []byte
		mode    os.FileMode
	}{
		"gw.crt": {cert, 0o644}, "gw.key": {key, 0o600}, "other.key": {otherKey, 0o600},
		"open.key": {key, 0o644}, "no.crt": {[]byte("hello"), 0o644},
		"long.crt": {[]byte(strings.Repeat("x", configs.MaxCertificateBytes+1)), 0o644},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), file.content, file.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), file.mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCertificatesThatAreNotServed(t *testing.T) {
	dir := certificates(t)
	for name, test := range map[string]struct{ cert, key, want string }{
		"a certificate that is not there": {"none.crt", "gw.key", "tls.cert_file: read certificate: open " + dir + "/none.crt"},
		"a certificate without end":       {"long.crt", "gw.key", "tls.cert_file: read certificate: " + dir + "/long.crt is too long"},
		"a folder":                        {".", "gw.key", "tls.cert_file: read certificate: "},
		"a certificate that is none":      {"no.crt", "gw.key", "tls.cert_file: want a certificate and its key in PEM: "},
		"a key that is not there":         {"gw.crt", "none.key", "tls.key_file: read secret: "},
		"a key that others may read":      {"gw.crt", "open.key", "tls.key_file: read secret: others may read"},
		"the key of another certificate":  {"gw.crt", "other.key", "tls.cert_file: want a certificate and its key in PEM: "},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := configs.Parse(filepath.Join(dir, "baton.toml"),
				home+"data_dir = '.'\n[http]\ntls = true\n[tls]\ncert_file = '"+test.cert+"'\nkey_file = '"+test.key+"'\n")
			if err != nil {
				t.Fatal(err)
			}
			if err := file.Err(); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
			if file.TLSConfig() != nil {
				t.Error("got a TLS configuration as well")
			}
		})
	}
}

func TestTheCertificateIsServed(t *testing.T) {
	dir := certificates(t)
	file, err := configs.Parse(filepath.Join(dir, "baton.toml"),
		home+"data_dir = '.'\n[http]\ntls = true\n[tls]\ncert_file = 'gw.crt'\nkey_file = 'gw.key'\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Err(); err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	if cert, err := os.ReadFile(filepath.Join(dir, "gw.crt")); err != nil || !trusted.AppendCertsFromPEM(cert) {
		t.Fatalf("read the certificate again: %v", err)
	}
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
			go tls.Server(far, file.TLSConfig()).HandshakeContext(t.Context())
			client := tls.Client(near, &tls.Config{
				ServerName: "gw.example", RootCAs: trusted, MinVersion: tls.VersionTLS10, MaxVersion: test.newest,
			})
			if err := client.HandshakeContext(t.Context()); (err == nil) != test.good {
				t.Errorf("got %v; good: want %t", err, test.good)
			}
		})
	}
	if first, second := file.TLSConfig(), file.TLSConfig(); first == second {
		t.Error("two callers share a configuration that they may change")
	}
}

func TestWithoutACertificateThereIsNoTLS(t *testing.T) {
	file, err := configs.Parse("baton.toml", home)
	if err != nil {
		t.Fatal(err)
	}
	if file.TLSConfig() != nil || file.Err() != nil {
		t.Errorf("got %v, %v", file.TLSConfig(), file.Err())
	}
}
