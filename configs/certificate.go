package configs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"net/url"
	"os"
	"time"
)

// The modes of [TLS].
const (
	FilesMode = "files" // the operator replaces the files
	ACMEMode  = "acme"  // the gateway orders certificates
)

// ACME is the table of the certificate authority and of its orders.
type ACME struct {
	Email      string   `toml:"email"`       // contact of the account; empty for none
	Domains    []string `toml:"domains"`     // names in the certificate; empty for home.name only
	Directory  string   `toml:"directory"`   // URL of the directory
	CAFile     string   `toml:"ca_file"`     // certificate authorities for the directory; empty for the authorities of the system
	HTTPListen string   `toml:"http_listen"` // host:port of a listener for HTTP-01; empty for none
}

// SpeaksTLS reports whether the configuration names a certificate or an authority that issues one.
func (f *File) SpeaksTLS() bool { return f.certificate != nil || f.TLS.Mode == ACMEMode }

// Certificate returns the certificate as read with the configuration, or nil if no files are
// configured.
func (f *File) Certificate() *tls.Certificate { return f.certificate }

// ACMEDomains returns the names required in the ACME certificate.
func (f *File) ACMEDomains() []string {
	if len(f.ACME.Domains) == 0 {
		return []string{f.Home.Name}
	}
	return f.ACME.Domains
}

// CheckValidity returns an error if a certificate has expired or is not yet valid at the given
// time.
func CheckValidity(leaf *x509.Certificate, now time.Time) error {
	if now.After(leaf.NotAfter) {
		return errors.New("the certificate expired at " + leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if now.Before(leaf.NotBefore) {
		return errors.New("the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// If [tls] has no mode, the presence of the table turns ACME on.
func (f *File) acme(t Table) {
	if _, named := f.lookup("tls.mode"); !named && t.values != nil {
		f.TLS.Mode = ACMEMode
	}
	if f.ACME.Email != "" {
		if address, err := mail.ParseAddress(f.ACME.Email); err != nil || address.Address != f.ACME.Email {
			t.Mistake("email", "want an address such as ops@gw.example")
		}
	}
	for _, domain := range f.ACME.Domains {
		if !isHostName(domain) {
			t.Mistake("domains", "want lower-case host names, such as gw.example, and no *")
		}
	}
	if u, err := url.Parse(f.ACME.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		t.Mistake("directory", "want the https:// address of an ACME directory")
	}
	listenAddress(t, "http_listen", f.ACME.HTTPListen)
	if f.ACME.CAFile != "" {
		text, err := readCertificate(f.Path(f.ACME.CAFile))
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
			err = errors.New("want certificates in PEM")
		}
		if err != nil {
			t.Mistake("ca_file", err.Error())
		}
	}
}

// A missing certificate, or a mismatched key, is a mistake.
func (f *File) tls(t Table) {
	oneOf(t, "mode", f.TLS.Mode, FilesMode, ACMEMode)
	if f.TLS.Mode == ACMEMode {
		for key, value := range map[string]string{"cert_file": f.TLS.CertFile, "key_file": f.TLS.KeyFile} {
			if value != "" {
				t.Mistake(key, `it goes with mode = "files", and the authority of [tls.acme] issues the certificate`)
			}
		}
		return
	}
	switch {
	case f.TLS.CertFile == "" && f.TLS.KeyFile == "":
		return
	case f.TLS.CertFile == "":
		t.Mistake("cert_file", "required with key_file")
		return
	case f.TLS.KeyFile == "":
		t.Mistake("key_file", "required with cert_file")
		return
	}
	pair, certErr, keyErr := readPair(f.Path(f.TLS.CertFile), f.Path(f.TLS.KeyFile))
	if certErr != nil {
		t.Mistake("cert_file", certErr.Error())
	}
	if keyErr != nil {
		t.Mistake("key_file", keyErr.Error())
	}
	f.certificate = pair
}

// ReadPair reads a certificate with its chain, and its key, from PEM files. The error is one line
// that names the file.
func ReadPair(certFile, keyFile string) (*tls.Certificate, error) {
	pair, certErr, keyErr := readPair(certFile, keyFile)
	return pair, errors.Join(certErr, keyErr)
}

// readPair is [ReadPair] with separate errors for each file. An error about both counts for the
// certificate.
func readPair(certFile, keyFile string) (pair *tls.Certificate, certErr, keyErr error) {
	chain, certErr := readCertificate(certFile)
	key, keyErr := ReadSecret(keyFile)
	if certErr != nil || keyErr != nil {
		return nil, certErr, keyErr
	}
	both, err := tls.X509KeyPair(chain, []byte(key))
	if err != nil {
		return nil, fmt.Errorf("want a certificate and its key in PEM: %w", err), nil
	}
	return &both, nil, nil
}

// maxCertificateBytes leaves room for a chain of certificates of about 2 kB each.
const maxCertificateBytes = 64 << 10

func readCertificate(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file, in the configuration
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCertificateBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read certificate: %w", err)
	case len(text) > maxCertificateBytes:
		return nil, errors.New("read certificate: " + path + " is too long for one")
	}
	return text, nil
}
