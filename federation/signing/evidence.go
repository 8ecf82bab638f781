package signing

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/gowebpki/jcs"

	"baton/federation"
)

// Original is the foreign message that a vouched step was read from.
type Original struct {
	Network   string    // as in [federation.Arrival]
	Received  time.Time // when it first arrived
	Document  string    // the message exactly as received, or the signed document
	Signature string    // of a signed document; empty where Document contains it
	KeyID     string
	Key       ed25519.PublicKey
}

// EvidencePath is the path below which a gateway serves originals, each by the hexadecimal digits of its
// SHA-256.
const EvidencePath federation.URLPath = "/evidence"

// OriginalOf returns a signed step as the original of a rendition.
func OriginalOf(ev federation.Event) Original {
	return Original{
		Network: ev.Arrival.Network, Received: ev.Arrival.Received, Document: ev.Signature.Document,
		Signature: ev.Signature.Text, KeyID: ev.Signature.KeyID, Key: ev.Signature.Key,
	}
}

// Evidence returns the evidence of an original for a step at a venue: canonical JSON, and its address at the
// gateway, by the SHA-256. The same original gives the same bytes. Readers other than the parties may see the
// digest, so the address of private evidence has a capability, made with the key named [EvidenceSecret].
//
// spec: airc-shapes "A step as payload"
func (o Original) Evidence(ctx context.Context, publicURL, venue string, secret federation.SigningKey) (federation.Evidence, error) {
	members := map[string]any{
		"v": 1, "network": o.Network, "received": o.Received.UTC().Format("2006-01-02T15:04:05.000Z07:00"), "document": o.Document,
		"key": map[string]string{"kid": o.KeyID, "publicKey": base64.RawURLEncoding.EncodeToString(o.Key)},
	}
	if o.Signature != "" {
		members["signature"] = o.Signature
	}
	text, err := json.Marshal(members)
	if err != nil {
		return federation.Evidence{}, fmt.Errorf("write evidence: %w", err)
	}
	served, err := jcs.Transform(text)
	if err != nil {
		return federation.Evidence{}, fmt.Errorf("write evidence: %w", err)
	}
	digest := sha256.Sum256(served)
	var query url.Values
	if federation.Private(venue) {
		capability, err := evidenceCapability(ctx, digest, secret)
		if err != nil {
			return federation.Evidence{}, err
		}
		query = url.Values{capabilityQuery: {capability}}
	}
	address, err := federation.JoinURL(publicURL, EvidencePath.Join(hex.EncodeToString(digest[:])), query)
	if err != nil {
		return federation.Evidence{}, fmt.Errorf("name evidence: %w", err)
	}
	return federation.Evidence{
		URL: address, Digest: digest, Bytes: served, Source: sha256.Sum256([]byte(o.Document)),
	}, nil
}

// capabilityQuery is the member of the query that has the capability of evidence.
const capabilityQuery = "k"

// capabilityBytes is how much of the signature over a digest is in a capability.
const capabilityBytes = 16

// EvidenceSecret is the name of the kept key that makes capabilities. It signs nothing else.
const EvidenceSecret = "evidence"

// OpensEvidence reports whether a query has the capability of evidence.
func OpensEvidence(ctx context.Context, digest [sha256.Size]byte, query url.Values, key federation.SigningKey) (bool, error) {
	capability, err := evidenceCapability(ctx, digest, key)
	return err == nil && hmac.Equal([]byte(capability), []byte(query.Get(capabilityQuery))), err
}

// evidenceCapability returns a part of an Ed25519 signature, which is deterministic, and unknown without the
// key.
func evidenceCapability(ctx context.Context, digest [sha256.Size]byte, key federation.SigningKey) (string, error) {
	signature, err := key.Sign(ctx, append([]byte("baton evidence capability v1\x00"), digest[:]...))
	if err != nil {
		return "", fmt.Errorf("make capability of evidence: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(signature[:capabilityBytes]), nil
}
