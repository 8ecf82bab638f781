package agentapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/translate"
)

// ask is a step as it was asked for.
type ask struct {
	verb   federation.Verb
	view   federation.View // of its handoff; zero for an offer
	from   federation.DID
	path   string
	body   any // as it was sent, for the evidence
	proof  stepbuilder.Proof
	draft  stepbuilder.Draft
	lonely bool // the proof came with nothing that belongs into it
}

// CreateHandoff implements [contract.StrictServerInterface].
func (l *Link) CreateHandoff(ctx context.Context, req contract.CreateHandoffRequestObject) (contract.CreateHandoffResponseObject, error) {
	from, err := person(ctx)
	if err != nil {
		return nil, err
	}
	b := *req.Body
	a := ask{verb: federation.Offer, from: from, path: Prefix + "handoffs", body: b, proof: stepbuilder.Proof{Document: b.Document, Signature: b.Signature}}
	a.draft = stepbuilder.Draft{
		Channel: b.Channel, Title: b.Title, ContextHash: b.ContextHash, Caps: b.Caps, Deadline: b.Deadline, Priority: b.Priority,
	}
	if b.To != "" {
		if a.draft.To, err = federation.ParseDID(b.To); err != nil {
			return nil, usage("to: " + err.Error())
		}
	}
	if b.Replaces != "" {
		if a.draft.Replaces, err = federation.ParseEventID(b.Replaces); err != nil {
			return nil, usage("replaces: " + err.Error())
		}
	}
	a.lonely = b.ID+b.To+b.Title+b.ContextHash+b.Priority+b.Replaces == "" && len(b.Context)+len(b.Caps) == 0 && b.Deadline.IsZero()
	return l.take(ctx, a, b.ID, b.Context, req.Params.IdempotencyKey)
}

// CreateStep implements [contract.StrictServerInterface].
func (l *Link) CreateStep(ctx context.Context, req contract.CreateStepRequestObject) (contract.CreateStepResponseObject, error) {
	from, err := person(ctx)
	if err != nil {
		return nil, err
	}
	verb := federation.Verb(req.Verb)
	if verb == federation.Offer || verb == federation.Expire || verb == federation.Confirm {
		return nil, &federation.RefusalError{Code: federation.UnknownVerb}
	}
	view, err := l.find(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	var b contract.StepRequest
	if req.Body != nil {
		b = *req.Body
	}
	a := ask{verb: verb, view: view, from: from, path: Prefix + "handoffs/" + req.ID + "/" + req.Verb, body: b, proof: stepbuilder.Proof{Document: b.Document, Signature: b.Signature}}
	a.draft = stepbuilder.Draft{Note: b.Note, ContextHash: b.ContextHash, ReplyTo: b.ReplyTo}
	a.lonely = b.ID+b.Note+b.ContextHash+b.ReplyTo == "" && len(b.Context) == 0
	return l.take(ctx, a, b.ID, b.Context, req.Params.IdempotencyKey)
}

// take answers a step, once for each key.
func (l *Link) take(ctx context.Context, a ask, id string, content json.RawMessage, key string) (filed, error) {
	signed := a.proof != stepbuilder.Proof{}
	if signed && (!a.lonely || a.proof.Document == "" || a.proof.Signature == "") {
		return filed{}, usage("a signed step is document and signature, and nothing that is in the document besides")
	}
	var err error
	if a.draft.Context, err = contextOf(content); err != nil {
		return filed{}, err
	}
	if id != "" {
		if a.draft.ID, err = federation.ParseEventID(id); err != nil {
			return filed{}, usage("id: " + err.Error())
		}
	}
	if key == "" || signed { // what is signed has an id, or a signature that is like no other
		return l.file(ctx, a)
	}
	return l.once(ctx, a, key)
}

// contextOf reads a context: JSON as it is to be read, or the text of a reference.
func contextOf(content json.RawMessage) (string, error) {
	if len(content) == 0 {
		return "", nil
	}
	var reference string
	if json.Unmarshal(content, &reference) == nil {
		return reference, nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, content); err != nil || !federation.InlineContext(text.String()) {
		return "", usage("context: want an object, a list or the address of one")
	}
	return text.String(), nil
}

// filed is the answer to a step: of now, or the one that was given before.
type filed struct {
	status   int
	body     []byte
	location string
	replayed bool
}

// VisitCreateHandoffResponse implements [contract.CreateHandoffResponseObject].
func (f filed) VisitCreateHandoffResponse(w http.ResponseWriter) error { return f.write(w) }

// VisitCreateStepResponse implements [contract.CreateStepResponseObject].
func (f filed) VisitCreateStepResponse(w http.ResponseWriter) error { return f.write(w) }

func (f filed) write(w http.ResponseWriter) error {
	if f.replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	if f.status >= http.StatusBadRequest {
		w.Header().Set("Content-Type", "application/problem+json")
	} else {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", f.location)
	}
	w.WriteHeader(f.status)
	_, err := w.Write(append(f.body, '\n'))
	return err
}

// unwrittenError is why a step cannot be written down: its home has not judged it, and not
// counted it.
type unwrittenError struct{ why error }

// Error implements error.
func (e *unwrittenError) Error() string { return e.why.Error() }

// Unwrap returns why.
func (e *unwrittenError) Unwrap() error { return e.why }

// file submits one step. A step that was filed before is answered as it was then.
func (l *Link) file(ctx context.Context, a ask) (filed, error) {
	ev, losses, err := l.event(ctx, a, time.Now())
	if err != nil {
		return filed{}, &unwrittenError{err}
	}
	l.deps.Gateway.FetchKey(ctx, ev)
	judged, err := l.deps.Gateway.Submit(ctx, ev)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	waits := isRefusal && refused.Waits
	if err != nil && !waits {
		return filed{}, err
	}
	at := judged.Entry
	body := contract.Filed{
		ID: at.Event.Handoff.String(), EventID: at.Event.ID.String(), Verb: string(at.Event.Verb), State: string(at.State), Lost: []string{},
	}
	for _, loss := range losses {
		body.Lost = append(body.Lost, loss.Field)
	}
	status := http.StatusCreated
	switch {
	case waits:
		status, body.Waits = http.StatusAccepted, refused.Sentence()
	case judged.Awaits:
		status, body.Waits = http.StatusAccepted, "the home of the handoff has not ruled yet"
	}
	body.State = cmp.Or(body.State, string(judged.View.State))
	text, err := json.Marshal(body)
	return filed{status: status, body: text, location: Prefix + "handoffs/" + body.ID, replayed: judged.Duplicate}, err
}

// event returns the step that is asked for: as the caller signed it, or as the gateway
// signs it for the caller.
func (l *Link) event(ctx context.Context, a ask, now time.Time) (federation.Event, []translate.Loss, error) {
	if a.proof.Document != "" {
		ev, err := l.builder().Attest(ctx, a.proof, a.verb, a.view, a.draft.Channel, now)
		if err == nil && !l.deps.Gateway.Same(ctx, a.from, ev.From) {
			err = federation.Refuse(ev, federation.ActorMismatch, "the token is that of "+string(a.from))
		}
		return ev, nil, err
	}
	d := a.draft
	d.From, d.Verb, d.Proved = a.from, a.verb, true
	var err error
	if d.ID.IsZero() {
		if d.ID, err = federation.NewEventID(now, rand.Reader); err != nil {
			return federation.Event{}, nil, err
		}
	}
	if d.Original, err = original(a, d.ID); err != nil {
		return federation.Event{}, nil, err
	}
	return l.builder().Vouch(ctx, d, a.view, now)
}

// original returns what is kept as evidence of a request. It is the same for the same
// request of the same id, so that this is one step however often it comes.
func original(a ask, id federation.EventID) (string, error) {
	text, err := json.Marshal(struct {
		DID     federation.DID     `json:"did"`
		EventID federation.EventID `json:"event_id"`
		Request string             `json:"request"`
		Body    any                `json:"body"`
	}{a.from, id, http.MethodPost + " " + a.path, a.body})
	return string(text), err
}

// refusedFor reports whether a refusal is for good: the same request at another time
// would be refused too.
func refusedFor(err error) (bridge.ProblemError, bool) {
	p := problemOf(err)
	_, isRefusal := errors.AsType[*federation.RefusalError](err)
	return p, isRefusal && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
}
