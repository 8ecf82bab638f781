package agentapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/bridge"
	"baton/federation"
)

// once takes a step whose request has a key. The id of the step is on disk before the step
// is, so that a repeated request is the same step even after a crash between the two; and
// the answer is on disk before it is sent. The record keeps keys for a day, and storing one
// costs no step: a DID without steps left reserves no key, and a request that never reached
// the home is counted here.
func (l *Link) once(ctx context.Context, a ask, key string) (filed, error) {
	now := time.Now()
	if has := l.deps.Rates.Left(a.from, now); has.Limit > 0 && has.Left <= 0 {
		return filed{}, tooMany(has)
	}
	text, err := json.Marshal(a.body)
	if err != nil {
		return filed{}, err
	}
	reserved := federation.Answer{
		DID: a.from, Key: key, Digest: sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", a.path, text)), Event: a.draft.ID, At: now,
	}
	if reserved.Event.IsZero() {
		if reserved.Event, err = federation.NewEventID(now, rand.Reader); err != nil {
			return filed{}, err
		}
	}
	kept, err := l.deps.Answers.Reserve(ctx, reserved)
	switch {
	case err != nil:
		return filed{}, err
	case kept.Digest != reserved.Digest:
		return filed{}, &bridge.ProblemError{Status: http.StatusConflict, Code: codeOtherRequest, Detail: "this key was used for another request"}
	case kept.Status != 0:
		return filed{status: kept.Status, body: kept.Body, location: locationOf(kept.Body), replayed: true}, nil
	}
	return l.settle(ctx, a, kept, reserved.Event)
}

// settle takes a step that has its id reserved and no answer yet. One that was never
// filed under an id that is too old by now gets a fresh one.
func (l *Link) settle(ctx context.Context, a ask, kept federation.Answer, fresh federation.EventID) (filed, error) {
	a.draft.ID = kept.Event
	answer, err := l.file(ctx, a)
	if _, unseen := errors.AsType[*unwrittenError](err); unseen {
		l.deps.Rates.Charge(a.from, time.Now())
	}
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	if isRefusal && refused.Code == federation.EventIDClockSkew && kept.Event != fresh {
		kept.Event, a.draft.ID = fresh, fresh
		if err := l.deps.Answers.Answered(ctx, kept); err != nil {
			return filed{}, err
		}
		answer, err = l.file(ctx, a)
	}
	if p, final := refusedFor(err); final {
		l.deps.Metrics.Refusals.WithLabelValues(network, refusalCode(err)).Inc()
		answer.status = p.Status
		if answer.body, err = json.Marshal(shape(p)); err != nil {
			return filed{}, err
		}
	}
	if err != nil {
		return filed{}, err
	}
	kept.Status, kept.Body = answer.status, answer.body
	return answer, l.deps.Answers.Answered(ctx, kept)
}

func refusalCode(err error) string {
	refused, _ := errors.AsType[*federation.RefusalError](err) // the caller has seen that it is one
	return refused.Code.Upper()
}

// locationOf returns where the handoff of an answer is.
func locationOf(body []byte) string {
	var named struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(body, &named) // of a refusal there is none, and it is written without
	return Prefix + "handoffs/" + named.ID
}
