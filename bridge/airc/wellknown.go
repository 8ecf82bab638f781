package airc

import (
	"encoding/base64"
	"net/http"
)

// getRegistry answers GET /.well-known/airc/registry.json: the key that signs
// what this registry itself writes.
//
// spec: airc-v0.1.1 §9.3
func (l *Link) getRegistry(*call) (answer, error) {
	return answer{status: http.StatusOK, body: struct {
		Domain    string `json:"domain"`
		Name      string `json:"name"`
		PublicKey string `json:"publicKey"`
		KeyID     string `json:"kid"`
	}{l.domain, l.cfg.Name, base64.RawURLEncoding.EncodeToString(l.deps.RegistryKey.Public), l.kid}}, nil
}
