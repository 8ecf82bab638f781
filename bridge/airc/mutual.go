package airc

import "net/http"

// MTLSConfig is the table [airc.mtls]: the authorities that certify registries. The HTTP
// listener and the HTTP client of the gateway check the certificates.
type MTLSConfig struct {
	CAFile string `toml:"ca_file"` // empty where registries show each other no certificates
}

// certified refuses a request that a registry must have sent, and whose client did not
// show a good certificate for its domain.
//
// spec: airc-v0.1.1 §11.4
func (c MTLSConfig) certified(r *http.Request, domain string) error {
	if c.CAFile == "" {
		return nil
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || r.TLS.PeerCertificates[0].VerifyHostname(domain) != nil {
		return refuse(codeFederationBlocked, "here a registry shows a client certificate for its domain, which "+domain+" did not")
	}
	return nil
}
