package participant

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// The JSON of an [Offer], a [StepRequest] and a [MessageRequest] is the body of the same REST request.
// The API document contains their comments and tags. The JSON is kept as evidence, and its digest
// decides whether two requests with one key are the same. Therefore, the order of the members is fixed.

// Offer is a request to open a handoff. If the caller signs it, it has `document` and `signature`,
// and otherwise only `channel`. Without these, the gateway signs for the caller.
type Offer struct {
	Caps []string `json:"caps,omitempty,omitzero" maxItems:"16" schema:"Capability"`
	// The channel on IRC; by default, the gateway chooses one.
	Channel string `json:"channel,omitempty,omitzero" minLength:"1" maxLength:"200"`
	// JSON, an https URL or an at URI. Any other text becomes the member `text` of an object.
	Context     json.RawMessage `json:"context,omitempty,omitzero" type:"object,array,string"`
	ContextHash string          `json:"context_hash,omitempty,omitzero" pattern:"^sha256:[0-9a-f]{64}$"`
	Deadline    time.Time       `json:"deadline,omitzero"`
	// The signed step, which contains all members except `channel`.
	Document string `json:"document,omitempty,omitzero" maxLength:"32768"`
	ID       string `json:"id,omitempty,omitzero" schema:"ID"`
	Priority string `json:"priority,omitempty,omitzero" maxLength:"64"`
	Replaces string `json:"replaces,omitempty,omitzero" schema:"ID"`
	// In the wire format `ed25519:<kid>:<base64url>`.
	Signature string `json:"signature,omitempty,omitzero" maxLength:"512"`
	// One line. A title over 300 characters is truncated, and the member `description` of the
	// context has the full text.
	Title string `json:"title,omitempty,omitzero" minLength:"1"`
	// A DID, the name or handle of an agent, a nick, NICK@LINK, or HANDLE@DOMAIN of a registry in
	// the configuration. An impossible DID is refused with `invalid-target`, an unknown name with
	// `unknown-name`, and a name of several participants with `ambiguous-name`.
	To string `json:"to,omitempty,omitzero" minLength:"1" maxLength:"512"` // "" for anyone
}

// StepRequest is a request to send a step in a handoff. Its members have the same meaning as in an
// Offer.
type StepRequest struct {
	// JSON, an https URL or an at URI. Any other text becomes the member `text` of an object.
	Context     json.RawMessage `json:"context,omitempty,omitzero" type:"object,array,string"`
	ContextHash string          `json:"context_hash,omitempty,omitzero" pattern:"^sha256:[0-9a-f]{64}$"`
	Document    string          `json:"document,omitempty,omitzero" maxLength:"32768"`
	ID          string          `json:"id,omitempty,omitzero" schema:"ID"`
	Note        string          `json:"note,omitempty,omitzero" maxLength:"400"`
	ReplyTo     string          `json:"reply_to,omitempty,omitzero" maxLength:"128"`
	Signature   string          `json:"signature,omitempty,omitzero" maxLength:"512"`
}

// ReplayedHeader is the header of an answer that repeats an earlier one.
const ReplayedHeader = "Idempotency-Replayed"

// Filed is the answer to a step on disk.
type Filed struct {
	EventID string `json:"event_id" schema:"ID"`
	ID      string `json:"id" schema:"ID"` // ID of the handoff
	// Parts of the request that the step could not carry.
	Lost []string `json:"lost"` // never nil
	// State of the handoff after the step.
	State string `json:"state"`
	Verb  string `json:"verb"`
	// Reason why the step is not judged yet.
	Waits string `json:"waits,omitempty,omitzero"` // "" for a judged step

	// The participant for a name in the request.
	Resolved *Resolved `json:"resolved,omitzero"`
	// Absent if there is none.
	Warnings []stepbuilder.Warning `json:"warnings,omitempty,omitzero"`

	// Replayed reports that an earlier request filed the step.
	Replayed bool `json:"-"`
}

// AnswerStatus returns the HTTP status of the answer.
func (f Filed) AnswerStatus() int {
	if f.Waits != "" {
		return http.StatusAccepted
	}
	return http.StatusCreated
}

// AnswerHeader sets the headers of the answer.
func (f Filed) AnswerHeader(h http.Header) {
	h.Set("Location", Path+"handoffs/"+f.ID)
	markReplayed(h, f.Replayed)
}

func markReplayed(h http.Header, replayed bool) {
	if replayed {
		h.Set(ReplayedHeader, "true")
	}
}

// Request has the metadata of the request for a step.
type Request struct {
	// Key is the Idempotency-Key, or "". A repeated key of the same DID, on any network, gets the earlier
	// response.
	Key string
	// Path and Body are the request as received, if it differs from the body of REST: the path after the
	// method POST, and a value that encodes as JSON. They are kept as evidence, and identify the request.
	Path string
	Body any
}

type ask struct {
	verb  federation.Verb
	view  federation.View // zero for an offer
	from  federation.DID
	path  string
	body  any // as sent; used as evidence
	proof stepbuilder.Proof
	draft stepbuilder.Draft
	bare  bool      // the request repeats no signed member outside the proof
	named *Resolved // nil for none

	proved bool
}

// Offer opens a handoff. After a nil error, the offer is on disk. A repeated key returns the earlier
// result: Filed with Replayed, or a [*ReplayedError]. A different request with that key is a
// [*bridge.ProblemError] with [CodeOtherRequest].
func (a *Service) Offer(ctx context.Context, who Caller, o Offer, r Request) (Filed, error) {
	q, err := a.askOffer(ctx, who, o)
	if err != nil {
		return Filed{}, err
	}
	return a.submit(ctx, q, o.ID, o.Context, r)
}

func (a *Service) askOffer(ctx context.Context, who Caller, o Offer) (ask, error) {
	from, err := who.Person()
	if err != nil {
		return ask{}, err
	}
	q := ask{verb: federation.Offer, from: from, proved: !who.Bound, path: Path + "handoffs", body: o, proof: stepbuilder.Proof{Document: o.Document, Signature: o.Signature}}
	q.draft = stepbuilder.Draft{
		Channel: o.Channel, Title: o.Title, ContextHash: o.ContextHash, Caps: o.Caps, Deadline: o.Deadline, Priority: o.Priority,
	}
	if o.To != "" {
		if q.draft.To, q.named, err = a.Resolve(ctx, o.To); err != nil {
			return ask{}, err
		}
	}
	if o.Replaces != "" {
		if q.draft.Replaces, err = federation.ParseEventID(o.Replaces); err != nil {
			return ask{}, bridge.UsageProblem("replaces: " + err.Error())
		}
	}
	q.bare = o.ID+o.To+o.Title+o.ContextHash+o.Priority+o.Replaces == "" && len(o.Context)+len(o.Caps) == 0 && o.Deadline.IsZero()
	return q, nil
}

// Take sends a step in a handoff, with results as for [Service.Offer].
func (a *Service) Take(ctx context.Context, who Caller, id string, verb federation.Verb, s StepRequest, r Request) (Filed, error) {
	q, err := a.askStep(ctx, who, id, verb, s)
	if err != nil {
		return Filed{}, err
	}
	return a.submit(ctx, q, s.ID, s.Context, r)
}

func (a *Service) askStep(ctx context.Context, who Caller, id string, verb federation.Verb, s StepRequest) (ask, error) {
	from, err := who.Person()
	if err != nil {
		return ask{}, err
	}
	if verb == federation.Offer || verb == federation.Expire || verb == federation.Confirm {
		return ask{}, &federation.RefusalError{Code: federation.UnknownVerb}
	}
	view, err := a.findFor(ctx, who, id, verb)
	if err != nil {
		return ask{}, err
	}
	q := ask{
		verb: verb, view: view, from: from, proved: !who.Bound, path: Path + "handoffs/" + id + "/" + string(verb), body: s,
		proof: stepbuilder.Proof{Document: s.Document, Signature: s.Signature},
	}
	q.draft = stepbuilder.Draft{Note: s.Note, ContextHash: s.ContextHash, ReplyTo: s.ReplyTo}
	q.bare = s.ID+s.Note+s.ContextHash+s.ReplyTo == "" && len(s.Context) == 0
	return q, nil
}

func (a *Service) submit(ctx context.Context, q ask, id string, content json.RawMessage, r Request) (Filed, error) {
	if r.Path != "" {
		q.path, q.body = r.Path, r.Body
	}
	signed := q.proof != stepbuilder.Proof{}
	if signed && (!q.bare || q.proof.Document == "" || q.proof.Signature == "") {
		return Filed{}, bridge.UsageProblem("a signed step has only document and signature; all other fields belong in the document")
	}
	var err error
	if q.draft.Context, err = Context(content); err != nil {
		return Filed{}, err
	}
	if id != "" {
		if q.draft.ID, err = federation.ParseEventID(id); err != nil {
			return Filed{}, bridge.UsageProblem("id: " + err.Error())
		}
	}
	if r.Key == "" || signed { // a signed step has an ID, or a unique signature
		return a.file(ctx, q)
	}
	return a.once(ctx, q, r.Key)
}

// Context converts JSON, a URL of JSON, or plain text, which becomes an object with the member text.
func Context(content json.RawMessage) (string, error) {
	if len(content) == 0 || string(content) == "null" {
		return "", nil
	}
	var said string
	if federation.DecodeJSON(content, &said) == nil {
		if said == "" || strings.HasPrefix(said, "https://") || strings.HasPrefix(said, "at://") || federation.InlineContext(said) && json.Valid([]byte(said)) ||
			translate.ValidContext(said) {
			return said, nil
		}
		wrapped, err := json.Marshal(map[string]string{"text": said})
		return string(wrapped), err
	}
	var text bytes.Buffer
	if err := json.Compact(&text, content); err != nil || !federation.InlineContext(text.String()) {
		return "", bridge.UsageProblem("context: want an object, a list or the address of one")
	}
	return text.String(), nil
}

// unwrittenError means that a step failed before it reached its home, which has not counted it.
type unwrittenError struct{ why error }

// Error implements error.
func (e *unwrittenError) Error() string { return e.why.Error() }

// Unwrap returns the reason.
func (e *unwrittenError) Unwrap() error { return e.why }

// file returns the earlier response for an already filed step.
func (a *Service) file(ctx context.Context, q ask) (Filed, error) {
	ev, losses, err := a.event(ctx, q, time.Now())
	if err != nil {
		return Filed{}, &unwrittenError{err}
	}
	warnings, err := a.Builder().Warnings(ctx, ev)
	if err != nil {
		return Filed{}, &unwrittenError{err}
	}
	judged, err := a.deps.Gateway.Submit(ctx, ev)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	waits := isRefusal && refused.Waits
	if err != nil && !waits {
		return Filed{}, err
	}
	at := judged.Entry
	filed := Filed{
		ID: at.Event.Handoff.String(), EventID: at.Event.ID.String(), Verb: string(at.Event.Verb), State: string(at.State), Lost: []string{},
		Replayed: judged.Duplicate, Warnings: warnings, Resolved: q.named,
	}
	for _, loss := range losses {
		filed.Lost = append(filed.Lost, loss.Field)
	}
	switch {
	case waits:
		filed.Waits = refused.Sentence()
	case judged.Awaits:
		filed.Waits = "the home of the handoff has not ruled yet"
	}
	filed.State = cmp.Or(filed.State, string(judged.View.State))
	return filed, nil
}

// event returns the step signed by the caller or, on its behalf, by the gateway.
func (a *Service) event(ctx context.Context, q ask, now time.Time) (federation.Event, []federation.Loss, error) {
	if q.proof.Document != "" {
		ev, err := a.Builder().Attest(ctx, q.proof, q.verb, q.view, q.draft.Channel, now)
		if err != nil {
			return ev, nil, err
		}
		own, err := a.deps.Gateway.Same(ctx, q.from, ev.From)
		if err == nil && !own {
			err = federation.Refuse(ev, federation.ActorMismatch, "the token belongs to "+string(q.from))
		}
		return ev, nil, err
	}
	d := q.draft
	d.From, d.Verb, d.Proved = q.from, q.verb, q.proved
	var err error
	if d.ID.IsZero() {
		if d.ID, err = federation.NewEventID(now, rand.Reader); err != nil {
			return federation.Event{}, nil, err
		}
	}
	if d.Original, err = original(q, d.ID); err != nil {
		return federation.Event{}, nil, err
	}
	return a.Builder().Vouch(ctx, d, q.view, now)
}

// original returns the evidence of a request. It is the same for repeated requests with the same ID, so
// that they are one step.
func original(q ask, id federation.EventID) (string, error) {
	text, err := json.Marshal(struct {
		DID     federation.DID     `json:"did"`
		EventID federation.EventID `json:"event_id"`
		Request string             `json:"request"`
		Body    any                `json:"body"`
	}{q.from, id, http.MethodPost + " " + q.path, q.body})
	return string(text), err
}
