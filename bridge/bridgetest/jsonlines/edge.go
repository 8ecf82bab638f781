package jsonlines

import (
	"errors"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// answer returns the answer to a step of the peer, which resends the step after an answer with
// retry. The peer gets no error text, because the log has the gateway's errors.
func answer(id string, err error) message {
	if err == nil {
		return message{ID: id, Filed: true}
	}
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		if refused.Waits { // the step is on disk, and the gateway judges it again
			return message{ID: id, Filed: true}
		}
		return message{ID: id, Refused: string(refused.Code)}
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok {
		return message{ID: id, Retry: true}
	}
	if usage, ok := errors.AsType[*bridge.ProblemError](err); ok { // of the builder
		return message{ID: id, Refused: usage.Code}
	}
	if errors.Is(err, errLine) {
		return message{ID: id, Refused: "unreadable"}
	}
	return message{ID: id, Refused: "internal"}
}
