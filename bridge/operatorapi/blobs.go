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

// StoreBlob implements [contract.StrictServerInterface]. It keeps the body
// as it is, for steps of a DID.
func (o *Operator) StoreBlob(ctx context.Context, req contract.StoreBlobRequestObject) (contract.StoreBlobResponseObject, error) {
	owner, err := parseDID("owner", req.Params.Owner)
	if err != nil {
		return nil, err
	}
	limit := o.deps.Limits.Current().ContextBytes
	content, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return nil, usage("the body ended too early")
	}
	blob, err := o.deps.Evidence.Store(ctx, owner, content)
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge):
		return nil, &ProblemError{Status: http.StatusRequestEntityTooLarge, Code: CodeUsage, Detail: fmt.Sprintf("a context is at most %d bytes", limit)}
	case errors.Is(err, federation.ErrBlobQuota):
		return nil, &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "too much is stored for " + string(owner)}
	case err != nil:
		return nil, err
	}
	return contract.StoreBlob201JSONResponse{
		URL: blob.URL(o.deps.PublicURL), SHA256: blob.Hash(), ExpiresAt: Moment(blob.Expires),
	}, nil
}
