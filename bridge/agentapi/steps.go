package agentapi

import (
	"context"
	"encoding/json"
	"net/http"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

// replayedHeader is on the answer to a request that was answered before.
const replayedHeader = "Idempotency-Replayed"

// CreateHandoff implements [contract.StrictServerInterface].
func (l *Link) CreateHandoff(ctx context.Context, req contract.CreateHandoffRequestObject) (contract.CreateHandoffResponseObject, error) {
	done, err := l.access.Offer(ctx, callerOf(ctx).Caller, participant.Offer(*req.Body), participant.Request{Key: req.Params.IdempotencyKey})
	return filed(done), err
}

// CreateStep implements [contract.StrictServerInterface].
func (l *Link) CreateStep(ctx context.Context, req contract.CreateStepRequestObject) (contract.CreateStepResponseObject, error) {
	var b contract.StepRequest
	if req.Body != nil {
		b = *req.Body
	}
	key := participant.Request{Key: req.Params.IdempotencyKey}
	done, err := l.access.Take(ctx, callerOf(ctx).Caller, req.ID, federation.Verb(req.Verb), participant.StepRequest(b), key)
	return filed(done), err
}

// filed is the answer to a step: of now, or the one that was given before.
type filed participant.Filed

// VisitCreateHandoffResponse implements [contract.CreateHandoffResponseObject].
func (f filed) VisitCreateHandoffResponse(w http.ResponseWriter) error { return f.write(w) }

// VisitCreateStepResponse implements [contract.CreateStepResponseObject].
func (f filed) VisitCreateStepResponse(w http.ResponseWriter) error { return f.write(w) }

func (f filed) write(w http.ResponseWriter) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if f.Waits != "" {
		status = http.StatusAccepted
	}
	if f.Replayed {
		w.Header().Set(replayedHeader, "true")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", Prefix+"handoffs/"+f.ID)
	w.WriteHeader(status)
	_, err = w.Write(append(text, '\n'))
	return err
}
