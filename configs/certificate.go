package configs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxCertificateBytes bounds a certificate with its chain: some 2 kB for each of a few.
const maxCertificateBytes = 64 << 10

// tls reads the certificate where the file names one, so that one which is not
// there, or not that of its key, is a mistake like any other.
func (f *File) tls(t Table) {
	oneOf(t, "mode", f.TLS.Mode, "files")
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
	chain, err := readCertificate(f.Path(f.TLS.CertFile))
	if err != nil {
		t.Mistake("cert_file", err.Error())
	}
	key, keyErr := f.Secret(f.TLS.KeyFile)
	if keyErr != nil {
		t.Mistake("key_file", keyErr.Error())
	}
	if err != nil || keyErr != nil {
		return
	}
	pair, err := tls.X509KeyPair(chain, []byte(key))
	if err != nil {
		t.Mistake("cert_file", "want a certificate and its key in PEM: "+err.Error())
		return
	}
	f.certificate = &pair
}

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

// TLSConfig returns what listeners and links speak TLS with: the certificate that
// the file names, as it was when that was read, and no version before 1.2. It
// returns nil where the file names none. Each call returns a value of its own.
func (f *File) TLSConfig() *tls.Config {
	if f.certificate == nil {
		return nil
	}
	return &tls.Config{Certificates: []tls.Certificate{*f.certificate}, MinVersion: tls.VersionTLS12}
}
