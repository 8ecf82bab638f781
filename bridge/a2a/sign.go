package a2a

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"baton/federation"
)

// keysPath is where the keys are that verify cards.
const keysPath = "/.well-known/jwks.json"

// protected is the protected header of the signature of a card, with its members in order.
//
// spec: RFC 7515 §4
type protected struct {
	Algorithm string `json:"alg"`
	KeySet    string `json:"jku"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
}

// sign returns the signature of the home over a card.
//
// spec: RFC 7515 §5.1
func (l *Link) sign(ctx context.Context, canonical []byte) (wire.AgentCardSignature, error) {
	key := l.deps.Signer.Own()
	header, err := json.Marshal(protected{"EdDSA", l.deps.PublicURL + keysPath, federation.KeyID(key.Public), "JOSE"})
	if err != nil {
		return wire.AgentCardSignature{}, fmt.Errorf("sign card: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signature, err := key.Sign(ctx, []byte(encode(header)+"."+encode(canonical)))
	if err != nil {
		return wire.AgentCardSignature{}, fmt.Errorf("sign card: %w", err)
	}
	return wire.AgentCardSignature{Protected: encode(header), Signature: encode(signature)}, nil
}

// keySet is the keys of the home.
//
// spec: RFC 7517 §5
type keySet struct {
	Keys []publicKey `json:"keys"`
}

// publicKey is one key.
//
// spec: RFC 8037 §2
type publicKey struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	KeyID     string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
}

func (l *Link) serveKeys(w http.ResponseWriter, r *http.Request) {
	set := keySet{Keys: []publicKey{}}
	for _, key := range l.deps.PublicKeys(time.Now()) {
		set.Keys = append(set.Keys, publicKey{
			Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key), KeyID: federation.KeyID(key), Algorithm: "EdDSA", Use: "sig",
		})
	}
	text, err := json.Marshal(set)
	if err != nil {
		l.deny(w, r, err)
		return
	}
	serveDocument(w, r, append(text, '\n'))
}
