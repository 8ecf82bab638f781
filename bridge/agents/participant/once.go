package participant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// once stores the ID before the step, and the response before sending it, so that a repeated request files
// the same step even after a crash. Keys are kept for a day. A DID over its rate limit cannot reserve a
// key.
func (a *Service) once(ctx context.Context, q ask, key string) (Filed, error) {
	kept, fresh, err := a.reserve(ctx, q, key, time.Now())
	switch {
	case err != nil:
		return Filed{}, err
	case kept.Status != 0:
		return replayed(kept)
	}
	return a.settle(ctx, q, kept, fresh)
}

// reserve also returns an unused ID; kept may still lack a response.
func (a *Service) reserve(ctx context.Context, q ask, key string, now time.Time) (kept federation.Answer, fresh federation.EventID, err error) {
	if has := a.deps.Rates.Left(q.from, now); has.Limit > 0 && has.Left <= 0 {
		return kept, fresh, TooMany(has)
	}
	text, err := json.Marshal(q.body)
	if err != nil {
		return kept, fresh, err
	}
	if fresh = q.draft.ID; fresh.IsZero() {
		if fresh, err = federation.NewEventID(now, rand.Reader); err != nil {
			return kept, fresh, err
		}
	}
	reserved := federation.Answer{DID: q.from, Key: key, Digest: sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", q.path, text)), Event: fresh, At: now}
	kept, err = a.deps.Record.Reserve(ctx, reserved)
	if err == nil && kept.Digest != reserved.Digest {
		err = &bridge.ProblemError{Status: http.StatusConflict, Code: CodeOtherRequest, Detail: "this key was used for another request"}
	}
	return kept, fresh, err
}

func replayed(kept federation.Answer) (Filed, error) {
	if kept.Status >= http.StatusBadRequest {
		var e ReplayedError
		if err := federation.DecodeJSON(kept.Body, &e.Problem); err != nil {
			return Filed{}, fmt.Errorf("read the refusal on record: %w", err)
		}
		return Filed{}, &e
	}
	filed := Filed{Replayed: true}
	if err := federation.DecodeJSON(kept.Body, &filed); err != nil {
		return Filed{}, fmt.Errorf("read the answer on record: %w", err)
	}
	return filed, nil
}

// settle replaces the ID of a step that was never filed if that ID is too old.
func (a *Service) settle(ctx context.Context, q ask, kept federation.Answer, fresh federation.EventID) (Filed, error) {
	q.draft.ID = kept.Event
	filed, err := a.file(ctx, q)
	if _, unseen := errors.AsType[*unwrittenError](err); unseen {
		a.deps.Rates.Charge(q.from, time.Now())
	}
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	if isRefusal && refused.Code == federation.EventIDClockSkew && kept.Event != fresh {
		kept.Event, q.draft.ID = fresh, fresh
		if err := a.deps.Record.Answered(ctx, kept); err != nil {
			return Filed{}, err
		}
		filed, err = a.file(ctx, q)
	}
	var answer any = filed
	kept.Status = filed.AnswerStatus()
	if err != nil {
		p, final := refusedFor(err)
		if !final {
			return Filed{}, err
		}
		answer, kept.Status = p, p.Status
	}
	body, failed := json.Marshal(answer)
	if failed == nil {
		kept.Body = body
		failed = a.deps.Record.Answered(ctx, kept)
	}
	if failed != nil {
		return Filed{}, failed
	}
	return filed, err
}

// refusedFor reports whether a refusal is final.
func refusedFor(err error) (bridge.ProblemError, bool) {
	p := ProblemOf(err)
	_, isRefusal := errors.AsType[*federation.RefusalError](err)
	return p, isRefusal && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
}

// Unsigned is a step with an Idempotency-Key before its author signs it.
type Unsigned struct {
	Key   string          `json:"key"`
	Offer *Offer          `json:"offer,omitempty"` // nil for a step in a handoff
	ID    string          `json:"id,omitempty"`    // of the handoff
	Verb  federation.Verb `json:"verb,omitempty"`
	Step  StepRequest     `json:"step,omitzero"`
	// Stale is an ID refused by the home as too old or too new; zero for none.
	Stale federation.EventID `json:"stale,omitzero"`
}

// Reservation is the ID reserved for a step with an Idempotency-Key.
type Reservation struct {
	Event federation.EventID `json:"event_id"`        // to sign the step with
	Filed *Filed             `json:"filed,omitempty"` // nil unless the step is on disk
}

// Reserve returns the ID with which a caller signs a step. For a day, the same step and key get the same
// ID. A different step with that key is a [*bridge.ProblemError] with [CodeOtherRequest].
func (a *Service) Reserve(ctx context.Context, who Caller, u Unsigned) (Reservation, error) {
	q, err := a.askUnsigned(ctx, who, u)
	if err != nil {
		return Reservation{}, err
	}
	kept, fresh, err := a.reserve(ctx, q, u.Key, time.Now())
	if err != nil {
		return Reservation{}, err
	}
	if kept.Status != 0 {
		filed, err := replayed(kept)
		return Reservation{Event: kept.Event, Filed: &filed}, err
	}
	filed, err := a.onFile(ctx, kept.Event)
	if err == nil && filed == nil && !u.Stale.IsZero() && kept.Event == u.Stale {
		kept.Event = fresh
		err = a.deps.Record.Answered(ctx, kept)
	}
	return Reservation{Event: kept.Event, Filed: filed}, err
}

func (a *Service) askUnsigned(ctx context.Context, who Caller, u Unsigned) (ask, error) {
	if u.Offer != nil {
		return a.askOffer(ctx, who, *u.Offer)
	}
	return a.askStep(ctx, who, u.ID, u.Verb, u.Step)
}

// onFile returns nil for a step not on disk.
func (a *Service) onFile(ctx context.Context, id federation.EventID) (*Filed, error) {
	handoff, err := a.deps.Record.Reference(ctx, id.String())
	var at federation.Entry
	if err == nil {
		at, err = a.deps.Record.Step(ctx, handoff, id)
	}
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, fmt.Errorf("look up step: %w", err)
	}
	return &Filed{
		ID: handoff.String(), EventID: id.String(), Verb: string(at.Event.Verb), State: string(at.State), Lost: []string{}, Replayed: true,
	}, nil
}
