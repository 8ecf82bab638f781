package server

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

// clientAuthorities returns the authorities of client certificates in PEM, for all registries or
// for a single one, by the configured file. It appends problems to the mistakes of the
// configuration.
func clientAuthorities(file *configs.File) map[string][]byte {
	all := map[string][]byte{}
	t, table := file.Table("airc"), airc.DefaultConfig()
	t.Decode(&table)
	if text := authorities(file); text != nil {
		all[table.MTLS.CAFile] = text
	}
	for _, peer := range table.Peers {
		if peer.ClientCA == "" {
			continue
		}
		if !file.HTTP.TLS || file.TLSConfig() == nil {
			t.Mistake("peers.client_ca", peer.Domain+": want http.tls and the certificate of [tls] with it")
			continue
		}
		text, err := identity.ReadAuthorities(file.Path(peer.ClientCA))
		if err != nil {
			t.Mistake("peers.client_ca", peer.Domain+": "+err.Error())
			continue
		}
		all[peer.ClientCA] = text
	}
	return all
}

// clientPools returns the authorities of client certificates by their configured file.
func clientPools(file *configs.File) map[string]*x509.CertPool {
	pools := map[string]*x509.CertPool{}
	for name, text := range clientAuthorities(file) {
		pools[name] = x509.NewCertPool()
		pools[name].AppendCertsFromPEM(text)
	}
	return pools
}

// listenerTLS returns the TLS configuration of the public listener. If registries use client
// certificates, any certificate presented must be valid. Package airc decides which clients must
// present one, and by which authority.
func listenerTLS(file *configs.File) *tls.Config {
	config := file.TLSConfig()
	if all := clientAuthorities(file); len(all) > 0 {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		for _, text := range all {
			config.ClientCAs.AppendCertsFromPEM(text)
		}
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
