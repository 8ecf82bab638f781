package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxAuthorityBytes bounds a file of authorities, which has about 2 kB for each.
const maxAuthorityBytes = 256 << 10

// ReadAuthorities reads a file with the certificates of authorities, in PEM.
func ReadAuthorities(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file, in the configuration
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAuthorityBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read authorities: %w", err)
	case len(text) > maxAuthorityBytes:
		return nil, errors.New("read authorities: " + path + " is too long")
	case !x509.NewCertPool().AppendCertsFromPEM(text):
		return nil, errors.New("read authorities: want certificates in PEM")
	}
	return text, nil
}

// WithAuthorities returns the authorities of the system and the authorities in a text in PEM.
func WithAuthorities(text []byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the authorities of this system: %w", err)
	}
	roots.AppendCertsFromPEM(text)
	return roots, nil
}
