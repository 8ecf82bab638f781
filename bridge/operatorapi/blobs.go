package operatorapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// storeBlob keeps the body as it is, for steps of a DID.
func (o *Operator) storeBlob(ctx context.Context, in contract.Blob) (Stored, error) {
	owner, err := parseDID("owner", in.Owner)
	if err != nil {
		return Stored{}, err
	}
	limit := o.deps.Limits.Current().ContextBytes
	content, err := io.ReadAll(io.LimitReader(in.Content, limit+1))
	if err != nil {
		return Stored{}, usage("the body ended too early")
	}
	blob, err := o.deps.Evidence.Store(ctx, owner, content)
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge):
		return Stored{}, &ProblemError{Status: http.StatusRequestEntityTooLarge, Code: CodeUsage, Detail: fmt.Sprintf("a context is at most %d bytes", limit)}
	case errors.Is(err, federation.ErrBlobQuota):
		return Stored{}, &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "too much is stored for " + string(owner)}
	case err != nil:
		return Stored{}, err
	}
	return Stored{
		URL: blob.URL(o.deps.PublicURL), SHA256: blob.Hash(), ExpiresAt: Moment(blob.Expires),
	}, nil
}
