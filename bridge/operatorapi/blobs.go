package operatorapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"baton/federation"
)

// Stored is the answer to content that a step may refer to now.
type Stored struct {
	URL       string `json:"url"`
	SHA256    string `json:"sha256"` // as the hash of a context: "sha256:" and 64 hexadecimal digits
	ExpiresAt Moment `json:"expires_at"`
}

// postBlob answers POST blobs: the body is kept for steps of a DID, as it is.
func (o *Operator) postBlob(r *http.Request) (answer, error) {
	query := r.URL.Query()
	if err := known(query, "owner"); err != nil {
		return answer{}, err
	}
	owner, err := parseDID("owner", query.Get("owner"))
	if err != nil {
		return answer{}, err
	}
	limit := o.deps.Limits().ContextBytes
	content, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return answer{}, usage("the body ended too early")
	}
	blob, err := o.deps.Store(r.Context(), owner, content)
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge):
		return answer{}, &ProblemError{Status: http.StatusRequestEntityTooLarge, Code: CodeUsage, Detail: fmt.Sprintf("a context is at most %d bytes", limit)}
	case errors.Is(err, federation.ErrNoBlobRoom):
		return answer{}, &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "too much is stored for " + string(owner)}
	case err != nil:
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: Stored{
		URL: blob.URL(o.deps.PublicURL), SHA256: blob.Hash(), ExpiresAt: Moment(blob.Expires),
	}}, nil
}
