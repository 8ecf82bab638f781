package airc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gowebpki/jcs"

	"baton/federation"
)

// testimony is the original behind a step that the gateway vouched for: what was
// received, when, and with which key it verified.
type testimony struct {
	V        int          `json:"v"`
	Network  string       `json:"network"`
	Received string       `json:"received"` // RFC 3339 with milliseconds
	Document string       `json:"document"` // the body of the message, byte for byte
	Key      testimonyKey `json:"key"`
}

type testimonyKey struct {
	ID     string `json:"kid"`
	Public string `json:"publicKey"`
}

// testify returns the evidence for a message.
func (l *Link) testify(m envelope, key federation.AgentKey, received time.Time) (*federation.Evidence, error) {
	text, err := json.Marshal(testimony{
		V: 1, Network: network, Received: received.UTC().Format("2006-01-02T15:04:05.000Z"), Document: string(m.raw),
		Key: testimonyKey{ID: key.ID, Public: base64.RawURLEncoding.EncodeToString(key.Public)},
	})
	if err != nil {
		return nil, fmt.Errorf("write evidence: %w", err)
	}
	canonical, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("write evidence: %w", err)
	}
	digest := sha256.Sum256(canonical)
	return &federation.Evidence{
		URL: l.deps.PublicURL + "/evidence/" + hex.EncodeToString(digest[:]), Digest: digest,
		Bytes: canonical, Source: sha256.Sum256(m.raw),
	}, nil
}

// getEvidence answers GET /evidence/{sha256}. What it serves never changes.
func (l *Link) getEvidence(r *http.Request) (answer, error) {
	var digest [sha256.Size]byte
	name := r.PathValue("sha256")
	b, err := hex.DecodeString(name)
	if err != nil || copy(digest[:], b) != len(digest) || hex.EncodeToString(digest[:]) != name {
		return answer{}, refuse(codeNotFound, "evidence is named by a SHA-256 in 64 lower-case hex characters")
	}
	text, err := l.deps.Evidence.Evidence(r.Context(), digest)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, refuse(codeNotFound, "no step here named this evidence")
	case err != nil:
		return answer{}, fmt.Errorf("read evidence: %w", err)
	}
	return answer{status: http.StatusOK, body: raw(text), keep: true}, nil
}
