package participant

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// A call may contain a step with a context.
const maxCallBytes = 1 << 20

// The time to read a response after a wait.
const answerTime = time.Minute

type (
	ackCall struct {
		Device string            `json:"device"`
		UpTo   federation.Cursor `json:"up_to"`
	}
	decideCall struct {
		Sender string                  `json:"sender"`
		State  federation.ContactState `json:"state"`
	}
	listCall struct {
		Query Query             `json:"query"`
		After federation.Cursor `json:"after"`
		Limit int               `json:"limit"`
	}
	movedCall struct {
		ID     string             `json:"id"`
		Known  federation.Version `json:"known"`
		Within time.Duration      `json:"within"`
	}
	placeCall struct {
		To      string `json:"to"`
		Channel string `json:"channel"`
	}
	offerCall struct {
		Offer Offer  `json:"offer"`
		Key   string `json:"key"`
	}
	sayCall struct {
		Message MessageRequest `json:"message"`
		Key     string         `json:"key"`
	}
	takeCall struct {
		ID   string          `json:"id"`
		Verb federation.Verb `json:"verb"`
		Step StepRequest     `json:"step"`
		Key  string          `json:"key"`
	}
)

type call struct {
	changes bool // written to the audit log
	run     func(ctx context.Context, a Account, arguments []byte) (any, error)
}

func calling[In, Out any](changes bool, run func(ctx context.Context, a Account, in In) (Out, error)) call {
	return call{changes, func(ctx context.Context, a Account, arguments []byte) (any, error) {
		var in In
		if err := federation.DecodeJSON(arguments, &in); err != nil {
			return nil, bridge.UsageProblem("the body: " + err.Error())
		}
		return run(ctx, a, in)
	}}
}

func calls() map[string]call {
	return map[string]call{
		"act": calling(false, func(ctx context.Context, a Account, signed bool) (struct{}, error) {
			return struct{}{}, a.checkBound(ctx, signed)
		}),
		"inbox": calling(false, func(ctx context.Context, a Account, q InboxQuery) (InboxPage, error) { return a.Inbox(ctx, q) }),
		"acknowledge": calling(true, func(ctx context.Context, a Account, c ackCall) (struct{}, error) {
			return struct{}{}, a.Acknowledge(ctx, c.Device, c.UpTo)
		}),
		"handoffs": calling(false, func(ctx context.Context, a Account, c listCall) (HandoffPage, error) {
			return a.Handoffs(ctx, c.Query, c.After, c.Limit)
		}),
		"handoff": calling(false, func(ctx context.Context, a Account, id string) (HandoffLog, error) { return a.Handoff(ctx, id) }),
		"check": calling(false, func(ctx context.Context, a Account, c takeCall) (federation.View, error) {
			return a.CheckStep(ctx, c.ID, c.Verb)
		}),
		"place": calling(false, func(ctx context.Context, a Account, c placeCall) (OfferVenue, error) {
			return a.Place(ctx, c.To, c.Channel)
		}),
		"store": calling(true, func(ctx context.Context, a Account, content []byte) (Stored, error) { return a.Store(ctx, content) }),
		"pair":  calling(true, func(ctx context.Context, a Account, _ struct{}) (Pairing, error) { return a.Pair(ctx) }),
		"moved": calling(false, func(ctx context.Context, a Account, c movedCall) (federation.Version, error) {
			return a.Moved(ctx, c.ID, c.Known, c.Within)
		}),
		"offer": calling(true, func(ctx context.Context, a Account, c offerCall) (Filed, error) { return a.Offer(ctx, c.Offer, c.Key) }),
		"say":   calling(true, func(ctx context.Context, a Account, c sayCall) (Sent, error) { return a.Say(ctx, c.Message, c.Key) }),
		"decide": calling(true, func(ctx context.Context, a Account, c decideCall) (Contact, error) {
			return a.Decide(ctx, c.Sender, c.State)
		}),
		"take": calling(true, func(ctx context.Context, a Account, c takeCall) (Filed, error) {
			return a.Take(ctx, c.ID, c.Verb, c.Step, c.Key)
		}),
		"reserve": calling(false, func(ctx context.Context, a Account, u Unsigned) (Reservation, error) { return a.Reserve(ctx, u) }),
		"resolve": calling(false, func(ctx context.Context, a Account, to string) (Resolution, error) { return a.Resolve(ctx, to) }),
		"declare": calling(true, func(ctx context.Context, a Account, u AgentUpdate) (Agent, error) { return a.Declare(ctx, u) }),
		"whois":   calling(false, func(ctx context.Context, a Account, who string) ([]Person, error) { return a.Whois(ctx, who) }),
		"explain": calling(false, func(ctx context.Context, a Account, event string) (Explanation, error) {
			return a.Explain(ctx, event)
		}),
		"passport": calling(false, func(ctx context.Context, a Account, id string) (bridge.Document, error) { return a.Passport(ctx, id) }),
	}
}

// checkBound refuses if neither the gateway nor the caller can sign steps for the DID.
func (a Account) checkBound(ctx context.Context, signed bool) error {
	if err := a.Access.CheckBlocked(ctx, a.Caller.DID); err != nil || signed || !a.Caller.Bound {
		return err
	}
	return a.Access.Builder().CheckVouched(ctx, a.Caller.DID)
}

// Called is the result of an operation, or the reason of its refusal.
type Called struct {
	Answer  json.RawMessage      `json:"answer,omitempty"`
	Problem *bridge.ProblemError `json:"problem,omitempty"`
	// The possible participants for a name without one, or with several; otherwise absent.
	Candidates []Resolved     `json:"candidates,omitzero"`
	Assignee   federation.DID `json:"assignee,omitempty"` // The assignee of the handoff, if a step is refused because of it.
}

// AccountServer answers the calls of a [Remote]: POST {operation}.
type AccountServer struct {
	Access *Service
	// Caller returns the caller of a request.
	Caller func(r *http.Request) (Caller, error)
	// Changed writes a call that changed something to the audit log.
	Changed func(ctx context.Context, operation string, did federation.DID)
}

// CallerInPath returns an operator acting for the unproved DID in the path.
func CallerInPath(r *http.Request) (Caller, error) {
	did, err := federation.ParseDID(r.PathValue("did"))
	if err != nil {
		return Caller{}, bridge.UsageProblem("did: " + err.Error())
	}
	return Caller{DID: did, Bound: true}, nil
}

// ServeHTTP implements [http.Handler]. The request has the path value operation.
func (s AccountServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.answer(w, r)
	var called Called
	if err == nil {
		called.Answer, err = json.Marshal(answer)
	}
	if err != nil {
		called = Called{Problem: new(ProblemOf(err)), Assignee: Winner(err), Candidates: CandidatesOf(err)}
	}
	WriteJSON(w, http.StatusOK, called)
}

func (s AccountServer) answer(w http.ResponseWriter, r *http.Request) (any, error) {
	caller, err := s.Caller(r)
	if err != nil {
		return nil, err
	}
	operation := r.PathValue("operation")
	asked, ok := calls()[operation]
	if !ok {
		return nil, &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there is no operation " + operation}
	}
	arguments, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallBytes))
	if err != nil {
		return nil, bridge.UsageProblem("the body: " + err.Error())
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxWait + answerTime)) // a connection without a deadline needs no other
	answer, err := asked.run(r.Context(), Account{s.Access, caller}, arguments)
	if err == nil && asked.changes {
		s.Changed(r.Context(), operation, caller.DID)
	}
	return answer, err
}

const maxWait = 10 * time.Minute

// Remote is an [Account] used over the operator API of its gateway.
type Remote struct {
	// Post sends a call and blocks on the gateway. Its error wraps [*federation.UnavailableError] if the
	// gateway is unreachable.
	Post func(ctx context.Context, operation string, arguments []byte) ([]byte, error)
}

func invoke[Out any](ctx context.Context, r Remote, operation string, in any) (Out, error) {
	var out Out
	arguments, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	text, err := r.Post(ctx, operation, arguments)
	if err != nil {
		return out, err
	}
	var called Called
	if err := federation.DecodeJSON(text, &called); err != nil {
		return out, &federation.UnavailableError{What: "gateway", Err: err}
	}
	switch {
	case called.Problem != nil && called.Assignee != "":
		return out, &LostError{*called.Problem, called.Assignee}
	case called.Problem != nil && called.Candidates != nil:
		return out, &NameError{*called.Problem, called.Candidates}
	case called.Problem != nil:
		return out, called.Problem
	}
	return out, federation.DecodeJSON(called.Answer, &out)
}

// Act refuses a blocked DID, and a DID for which neither the gateway nor the caller signs.
func (r Remote) Act(ctx context.Context, signed bool) error {
	_, err := invoke[struct{}](ctx, r, "act", signed)
	return err
}

// Inbox is [Account.Inbox].
func (r Remote) Inbox(ctx context.Context, q InboxQuery) (InboxPage, error) {
	return invoke[InboxPage](ctx, r, "inbox", q)
}

// Acknowledge is [Account.Acknowledge].
func (r Remote) Acknowledge(ctx context.Context, device string, upTo federation.Cursor) error {
	_, err := invoke[struct{}](ctx, r, "acknowledge", ackCall{device, upTo})
	return err
}

// Handoffs is [Account.Handoffs].
func (r Remote) Handoffs(ctx context.Context, q Query, after federation.Cursor, limit int) (HandoffPage, error) {
	return invoke[HandoffPage](ctx, r, "handoffs", listCall{q, after, limit})
}

// Handoff is [Account.Handoff].
func (r Remote) Handoff(ctx context.Context, id string) (HandoffLog, error) {
	return invoke[HandoffLog](ctx, r, "handoff", id)
}

// CheckStep is [Account.CheckStep].
func (r Remote) CheckStep(ctx context.Context, id string, verb federation.Verb) (federation.View, error) {
	return invoke[federation.View](ctx, r, "check", takeCall{ID: id, Verb: verb})
}

// Place is [Account.Place].
func (r Remote) Place(ctx context.Context, to, channel string) (OfferVenue, error) {
	return invoke[OfferVenue](ctx, r, "place", placeCall{to, channel})
}

// Store is [Account.Store].
func (r Remote) Store(ctx context.Context, content []byte) (Stored, error) {
	return invoke[Stored](ctx, r, "store", content)
}

// Pair is [Account.Pair].
func (r Remote) Pair(ctx context.Context) (Pairing, error) {
	return invoke[Pairing](ctx, r, "pair", struct{}{})
}

// Moved is [Account.Moved].
func (r Remote) Moved(ctx context.Context, id string, known federation.Version, within time.Duration) (federation.Version, error) {
	return invoke[federation.Version](ctx, r, "moved", movedCall{id, known, within})
}

// Offer is [Account.Offer].
func (r Remote) Offer(ctx context.Context, o Offer, key string) (Filed, error) {
	return invoke[Filed](ctx, r, "offer", offerCall{o, key})
}

// Take is [Account.Take].
func (r Remote) Take(ctx context.Context, id string, verb federation.Verb, s StepRequest, key string) (Filed, error) {
	return invoke[Filed](ctx, r, "take", takeCall{id, verb, s, key})
}

// Reserve is [Account.Reserve].
func (r Remote) Reserve(ctx context.Context, u Unsigned) (Reservation, error) {
	return invoke[Reservation](ctx, r, "reserve", u)
}

// Resolve is [Account.Resolve].
func (r Remote) Resolve(ctx context.Context, to string) (Resolution, error) {
	return invoke[Resolution](ctx, r, "resolve", to)
}

// Declare is [Account.Declare].
func (r Remote) Declare(ctx context.Context, u AgentUpdate) (Agent, error) {
	return invoke[Agent](ctx, r, "declare", u)
}

// Whois is [Account.Whois].
func (r Remote) Whois(ctx context.Context, who string) ([]Person, error) {
	return invoke[[]Person](ctx, r, "whois", who)
}

// Explain is [Account.Explain].
func (r Remote) Explain(ctx context.Context, event string) (Explanation, error) {
	return invoke[Explanation](ctx, r, "explain", event)
}

// Passport is [Account.Passport].
func (r Remote) Passport(ctx context.Context, id string) (bridge.Document, error) {
	return invoke[bridge.Document](ctx, r, "passport", id)
}
