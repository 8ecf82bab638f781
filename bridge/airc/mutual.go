package airc

import (
	"crypto/x509"
	"net/http"
)

// MTLSConfig is the table [airc.mtls]: the authorities that certify registries. The HTTP
// listener and the HTTP client of the gateway check the certificates.
type MTLSConfig struct {
	CAFile string `toml:"ca_file"` // empty where registries show each other no certificates
}

// checkCertified rejects a request from a registry unless its client presented a valid certificate
// for the registry's domain.
//
// spec: airc-v0.1.1 §11.4
func (l *Link) checkCertified(r *http.Request, domain string) error {
	if l.cfg.MTLS.CAFile == "" || l.certified(r, l.cfg.MTLS.CAFile, domain) {
		return nil
	}
	return refuse(codeFederationBlocked, "a registry must present a client certificate for its domain here, which "+domain+" did not")
}

// certified reports whether a client presented a certificate for a domain, issued by one of the
// authorities in a file.
func (l *Link) certified(r *http.Request, file, domain string) bool {
	roots := l.deps.Authorities[file]
	if roots == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName: domain, Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
