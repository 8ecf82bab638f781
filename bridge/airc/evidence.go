package airc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"baton/federation"
)

// getEvidence answers GET /evidence/{sha256}. What it serves never changes.
func (l *Link) getEvidence(c *call) (answer, error) {
	var digest [sha256.Size]byte
	name := c.PathValue("sha256")
	b, err := hex.DecodeString(name)
	if err != nil || copy(digest[:], b) != len(digest) || hex.EncodeToString(digest[:]) != name {
		return answer{}, refuse(codeNotFound, "evidence is named by a SHA-256 in 64 lower-case hex characters")
	}
	text, err := l.deps.Evidence.Evidence(c.Context(), digest)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, refuse(codeNotFound, "no step here named this evidence")
	case err != nil:
		return answer{}, fmt.Errorf("read evidence: %w", err)
	}
	return answer{status: http.StatusOK, body: raw(text), keep: true}, nil
}
