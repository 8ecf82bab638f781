package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"

	"baton/bridge/airc"
	"baton/configs"
	"baton/federation/identity"
)

// mutualTable is the name of the table of the certificates that registries show each
// other.
const mutualTable = "airc.mtls"

// maxAuthorityBytes bounds a file of authorities, some 2 kB each.
const maxAuthorityBytes = 256 << 10

// authorities returns who certifies registries, in PEM; nil where they show each other
// no certificates. Mistakes are added to those of the file.
func authorities(file *configs.File) []byte {
	t := file.Table(mutualTable)
	var table airc.MTLSConfig
	t.Decode(&table)
	if table.CAFile == "" {
		return nil
	}
	if !file.HTTP.TLS || file.TLSConfig() == nil {
		t.Mistake("ca_file", "want http.tls and the certificate of [tls] with it: what is in front of a plain listener sees the certificates of others, and we do not")
		return nil
	}
	text, err := readAuthorities(file.Path(table.CAFile))
	if err != nil {
		t.Mistake("ca_file", err.Error())
		return nil
	}
	return text
}

func readAuthorities(path string) ([]byte, error) {
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

// listenerTLS returns what the public listener speaks TLS with. A certificate that a
// client shows must be good, where registries show each other some; who must show one
// is for package airc to say.
func listenerTLS(file *configs.File) *tls.Config {
	config := file.TLSConfig()
	if text := authorities(file); text != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(text)
	}
	return config
}

// newRegistryClient returns the guarded client that asks other registries: that of all
// strangers, or where registries show each other certificates one that has ours, and
// takes theirs from the same authorities too.
func newRegistryClient(file *configs.File, strangers *identity.Client) (*identity.Client, error) {
	text := authorities(file)
	if text == nil {
		return strangers, nil
	}
	roots, err := withAuthorities(text)
	if err != nil {
		return nil, err
	}
	cfg := fetchConfig(file)
	cfg.TLS = file.TLSConfig()
	cfg.TLS.RootCAs = roots
	return identity.NewClient(cfg), nil
}

// withAuthorities returns the authorities of the system and those in a text in PEM.
func withAuthorities(text []byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the authorities of this system: %w", err)
	}
	roots.AppendCertsFromPEM(text)
	return roots, nil
}
