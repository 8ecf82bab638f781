package configs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/configs"
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

// certificates returns a folder with pairs and a lookalike.
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

func TestCertificateRefusesUnusablePairs(t *testing.T) {
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
			if file.Certificate() != nil || file.SpeaksTLS() {
				t.Error("got a certificate as well")
			}
		})
	}
}

func TestCertificateIsOptional(t *testing.T) {
	file, err := configs.Parse("baton.toml", home)
	if err != nil {
		t.Fatal(err)
	}
	if file.SpeaksTLS() || file.Err() != nil {
		t.Errorf("got %t, %v", file.SpeaksTLS(), file.Err())
	}
}

func TestCertificateWarnsOfExpiry(t *testing.T) {
	dir := certificates(t)
	file, err := configs.Parse(filepath.Join(dir, "baton.toml"), home+"data_dir = '.'\n[tls]\ncert_file = 'gw.crt'\nkey_file = 'gw.key'\n")
	if err != nil || file.Err() != nil {
		t.Fatal(err, file.Err())
	}
	if warnings := file.Warnings(time.Now()); len(warnings) > 0 {
		t.Errorf("a valid one: %v", warnings)
	}
	for when, want := range map[time.Time]string{
		time.Now().Add(2 * time.Hour): ":5: tls.cert_file: the certificate expired at ", time.Now().Add(-2 * time.Hour): "tls.cert_file: the certificate is not valid before ",
	} {
		warnings := file.Warnings(when)
		if len(warnings) != 1 || !strings.Contains(warnings[0].String(), want) {
			t.Errorf("got %v, want one warning with %q", warnings, want)
		}
	}
}

func TestACMETableEnablesIt(t *testing.T) {
	for text, want := range map[string]struct {
		mistake string
		acme    bool
	}{
		"[tls.acme]\nemail = 'ops@gw.example'\n":                            {"", true},
		"[tls]\nmode = 'acme'\n":                                            {"", true},
		"[tls]\nmode = 'files'\n[tls.acme]\n":                               {"", false},
		"[tls]\nmode = 'acme'\ncert_file = 'a'\nkey_file = 'b'\n":           {`it goes with mode = "files"`, true},
		"[tls.acme]\ndomains = ['*.example']\n":                             {"tls.acme.domains: want lower-case host names", true},
		"[tls.acme]\nemail = 'nobody'\n":                                    {"tls.acme.email: want an address", true},
		"[tls.acme]\ndirectory = 'http://ca.example'\n":                     {"tls.acme.directory: want the https:// address", true},
		"[tls.acme]\nhttp_listen = '80'\n":                                  {"tls.acme.http_listen: want host:port", true},
		"[tls.acme]\nca_file = 'none.pem'\n":                                {"tls.acme.ca_file: read certificate", true},
		"[tls.acme]\n[http]\nlisten = ''\n":                                 {"http.listen: want a listener, or http_listen", true},
		"[http]\ntls = true\n[tls.acme]\ndomains = ['gw.example', 'b.c']\n": {"", true},
	} {
		file, err := configs.Parse("baton.toml", home+text)
		if err != nil {
			t.Fatal(err)
		}
		err = file.Err()
		if (err != nil) != (want.mistake != "") || err != nil && !strings.Contains(err.Error(), want.mistake) {
			t.Errorf("%q: got %v, want %q", text, err, want.mistake)
		}
		if (file.TLS.Mode == configs.ACMEMode) != want.acme || file.SpeaksTLS() != want.acme {
			t.Errorf("%q: mode %s", text, file.TLS.Mode)
		}
	}
}
