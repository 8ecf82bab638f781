package operatorapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// erasedAnswer is how long the answer to an erasure may take to be read.
const erasedAnswer = 10 * time.Second

// Erase implements [contract.StrictServerInterface]. It goes on where the client leaves, so that
// the audit log has each erasure.
func (o *Operator) Erase(ctx context.Context, req contract.EraseRequestObject) (contract.EraseResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask := *req.Body
	did, err := federation.ParseDID(ask.DID)
	if err != nil {
		return nil, usage("did: " + err.Error())
	}
	ctx = context.WithoutCancel(ctx)
	done := contract.Erased{DID: did, DryRun: ask.DryRun}
	done.Erasing, err = o.deps.Eraser.Erase(ctx, did, ask.DryRun)
	if _, refused := errors.AsType[*ProblemError](err); !ask.DryRun && !refused {
		what := "erase"
		if err != nil {
			what = "erase, cut short"
		}
		o.act(ctx, what, string(did), ask.Reason)
	}
	if err == nil {
		done.Files, err = o.deps.Eraser.Copies()
	}
	if err != nil {
		return nil, err
	}
	return erased(done), nil
}

// erased is the answer to an erasure, which takes longer than other answers.
type erased contract.Erase200JSONResponse

// VisitEraseResponse implements [contract.EraseResponseObject].
func (e erased) VisitEraseResponse(w http.ResponseWriter) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(erasedAnswer)) // what takes no deadline has none
	return contract.Erase200JSONResponse(e).VisitEraseResponse(w)
}
