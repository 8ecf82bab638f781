package airc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"baton/federation"
)

// uploaded is the answer to an upload.
type uploaded struct {
	URL       string `json:"url"`
	SHA256    string `json:"sha256"` // hex
	ExpiresAt int64  `json:"expiresAt"`
}

// postBlob answers POST /blob: the body is kept as it is, for the steps that will refer
// to it. It counts in its agent's rate as a message does.
func (l *Link) postBlob(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	if wait := l.deps.Rates.Take(agent.DID, time.Now()); wait > 0 {
		return answer{}, tooMany(wait)
	}
	limit := l.deps.Limits.Current().ContextBytes
	content, err := io.ReadAll(io.LimitReader(c.Body, limit+1))
	if err != nil {
		return answer{}, &problem{code: codeBadRequest, message: "the body ended too early", unreadable: "cut"}
	}
	blob, err := l.deps.Evidence.Store(c.Context(), agent.DID, content)
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge):
		_, _ = io.CopyN(io.Discard, c.Body, drainBytes) // the answer is the same however much there was
		return answer{}, &problem{code: codePayloadTooLarge, unreadable: "size", message: fmt.Sprintf("a context is at most %d bytes", limit)}
	case errors.Is(err, federation.ErrBlobQuota):
		return answer{}, &problem{code: codeRateLimited, message: "too much is stored for this agent", retryAfter: fullRetry}
	case err != nil:
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: uploaded{
		URL: blob.URL(l.deps.PublicURL), SHA256: hex.EncodeToString(blob.Digest[:]), ExpiresAt: blob.Expires.Unix(),
	}}, nil
}
