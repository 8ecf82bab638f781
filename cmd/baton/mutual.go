package main

import (
	"crypto/tls"
	"crypto/x509"

	"baton/bridge/airc"
	"baton/configs"
	"baton/federation/identity"
)

// mutualTable is the name of the table of the certificates that registries show each
// other.
const mutualTable = "airc.mtls"

// authorities returns the authorities that certify registries, in PEM; nil without mutual
// TLS. It adds mistakes to the mistakes of the file.
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
	text, err := identity.ReadAuthorities(file.Path(table.CAFile))
	if err != nil {
		t.Mistake("ca_file", err.Error())
		return nil
	}
	return text
}

// listenerTLS returns the TLS configuration of the public listener. With mutual TLS between
// registries, a certificate that a client shows must be valid. Package airc decides which
// clients must show one.
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
	roots, err := identity.WithAuthorities(text)
	if err != nil {
		return nil, err
	}
	cfg := fetchConfig(file)
	cfg.TLS = file.TLSConfig()
	cfg.TLS.RootCAs = roots
	return identity.NewClient(cfg), nil
}
