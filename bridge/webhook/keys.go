package webhook

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// spec: Standard Webhooks 1.0.0 "Signature scheme"
const secretBytes = 32

// keys are the signing keys of one hook. They are derived from a key of the gateway and the hook's
// ID, so that the record contains no secret.
type keys struct {
	secret  []byte
	private ed25519.PrivateKey
}

func newKeys(key []byte, id federation.WebhookID) (keys, error) {
	secret, err := hkdf.Key(sha256.New, key, nil, "baton webhook hmac "+id.String(), secretBytes)
	if err != nil {
		return keys{}, fmt.Errorf("make secret of hook: %w", err)
	}
	seed, err := hkdf.Key(sha256.New, key, nil, "baton webhook ed25519 "+id.String(), ed25519.SeedSize)
	if err != nil {
		return keys{}, fmt.Errorf("make key of hook: %w", err)
	}
	return keys{secret, ed25519.NewKeyFromSeed(seed)}, nil
}

// Secret returns the shared secret in the form for its owner.
func (k keys) Secret() string { return "whsec_" + base64.StdEncoding.EncodeToString(k.secret) }

// PublicKey returns the public key in the form for its owner.
func (k keys) PublicKey() string {
	public, _ := k.private.Public().(ed25519.PublicKey) // always has this type
	return "whpk_" + base64.StdEncoding.EncodeToString(public)
}

// header returns the signed headers of a body.
//
// spec: Standard Webhooks 1.0.0 "Webhook headers"
func (k keys) header(id string, body []byte, now time.Time) http.Header {
	at := strconv.FormatInt(now.Unix(), 10)
	signed := fmt.Appendf(nil, "%s.%s.%s", id, at, body)
	shared := hmac.New(sha256.New, k.secret)
	shared.Write(signed)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "Baton")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(shared.Sum(nil))+
		" v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, signed)))
	return h
}
