package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// Account is a participant at a gateway, either logged in or represented by an operator. If it has
// a key, it signs each step in this process. It may be used concurrently.
type Account struct {
	participant.Remote

	key *federation.SigningKey // nil if the gateway signs
}

// Account returns the account of a DID. The key may be nil.
func (c *Client) Account(did federation.DID, key *federation.SigningKey) *Account {
	post := func(ctx context.Context, operation string, arguments []byte) ([]byte, error) {
		call := admin.ParticipantCall{DID: string(did), Operation: operation, Arguments: route.JSON[json.RawMessage](arguments)}
		response, err := open(ctx, c, admin.CallParticipant, call)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return readAnswer(response)
	}
	return &Account{Remote: participant.Remote{Post: post}, key: key}
}

// Offer opens a handoff, like [participant.Account.Offer].
func (a *Account) Offer(ctx context.Context, o participant.Offer, key string) (participant.Filed, error) {
	if a.key == nil {
		return a.Remote.Offer(ctx, o, key)
	}
	var to participant.Resolution
	if o.To != "" {
		var err error
		if to, err = a.Resolve(ctx, o.To); err != nil {
			return participant.Filed{}, err
		}
	}
	step := Step{Verb: federation.Offer, Key: a.key, Ask: admin.Ask{
		To: string(to.DID), Channel: o.Channel, Title: o.Title, Caps: o.Caps, Deadline: admin.Moment(o.Deadline),
	}}
	if o.Replaces != "" {
		var err error
		if step.Replaces, err = federation.ParseEventID(o.Replaces); err != nil {
			return participant.Filed{}, bridge.UsageProblem("replaces: " + err.Error())
		}
	}
	filed, err := a.once(ctx, step, o.Context, participant.Unsigned{Key: key, Offer: &o}, func(p admin.Proof) (participant.Filed, error) {
		return a.Remote.Offer(ctx, participant.Offer{Channel: o.Channel, Document: p.Document, Signature: p.Signature}, "")
	})
	filed.Resolved = to.Resolved
	return filed, err
}

// Take takes a step in a handoff, like [participant.Account.Take].
func (a *Account) Take(ctx context.Context, id string, verb federation.Verb, s participant.StepRequest, key string) (participant.Filed, error) {
	if a.key == nil {
		return a.Remote.Take(ctx, id, verb, s, key)
	}
	if _, err := a.CheckStep(ctx, id, verb); err != nil {
		return participant.Filed{}, err
	}
	step := Step{Verb: verb, Handoff: id, Key: a.key, Ask: admin.Ask{Note: s.Note}}
	return a.once(ctx, step, s.Context, participant.Unsigned{Key: key, ID: id, Verb: verb, Step: s}, func(p admin.Proof) (participant.Filed, error) {
		return a.Remote.Take(ctx, id, verb, participant.StepRequest{Document: p.Document, Signature: p.Signature}, "")
	})
}

// A step with an idempotency key gets the ID that the gateway reserved for the key. A repetition
// then returns the filed step, even after a restart of this process.
func (a *Account) once(ctx context.Context, step Step, content json.RawMessage, u participant.Unsigned,
	file func(admin.Proof) (participant.Filed, error),
) (participant.Filed, error) {
	text, err := participant.Context(content)
	if err != nil {
		return participant.Filed{}, err
	}
	if step.Context = text; federation.InlineContext(text) {
		step.Context, step.Content = "", []byte(text)
	}
	if u.Key == "" {
		return a.sign(ctx, step, file)
	}
	filed, err := a.reserved(ctx, &step, u, file)
	if problem, ok := errors.AsType[*bridge.ProblemError](err); ok && problem.Code == string(federation.EventIDClockSkew) {
		u.Stale = step.ID
		filed, err = a.reserved(ctx, &step, u, file)
	}
	return filed, err
}

func (a *Account) reserved(ctx context.Context, step *Step, u participant.Unsigned, file func(admin.Proof) (participant.Filed, error)) (participant.Filed, error) {
	at, err := a.Reserve(ctx, u)
	switch {
	case err != nil:
		return participant.Filed{}, err
	case at.Filed != nil:
		return *at.Filed, nil
	}
	step.ID = at.Event
	return a.sign(ctx, *step, file)
}

func (a *Account) sign(ctx context.Context, step Step, file func(admin.Proof) (participant.Filed, error)) (participant.Filed, error) {
	content, err := contextOf(&step)
	if err != nil {
		return participant.Filed{}, callerError(err)
	}
	ask, err := sign(ctx, a, step, content)
	if err != nil {
		return participant.Filed{}, callerError(err)
	}
	return file(*ask.Proof)
}

func (a *Account) place(ctx context.Context, _, to, channel string) (string, federation.Dialect, error) {
	at, err := a.Place(ctx, to, channel)
	return at.Venue, at.Dialect, err
}

func (a *Account) handoff(ctx context.Context, id string, verb federation.Verb) (federation.View, error) {
	return a.CheckStep(ctx, id, verb)
}

func (a *Account) store(ctx context.Context, _ string, content []byte) (address, hash string, err error) {
	kept, err := a.Store(ctx, content)
	return kept.URL, kept.SHA256, err
}

// waitTime bounds one wait, because proxies end a request after a minute of silence.
const waitTime = 50 * time.Second

// Inbox is [participant.Account.Inbox].
func (a *Account) Inbox(ctx context.Context, q participant.InboxQuery) (participant.InboxPage, error) {
	for left := q.Wait; ; left -= waitTime {
		q.Wait = min(left, waitTime)
		page, err := a.Remote.Inbox(ctx, q)
		if err != nil || len(page.Items) > 0 || left <= waitTime || ctx.Err() != nil {
			return page, err
		}
	}
}

// Moved is [participant.Account.Moved].
func (a *Account) Moved(ctx context.Context, id string, known federation.Version, within time.Duration) (federation.Version, error) {
	for left := within; ; left -= waitTime {
		version, err := a.Remote.Moved(ctx, id, known, min(left, waitTime))
		if err != nil || version != known || left <= waitTime || ctx.Err() != nil {
			return version, err
		}
	}
}

func callerError(err error) error {
	problem, isProblem := errors.AsType[*bridge.ProblemError](err)
	away, isAway := errors.AsType[*federation.UnavailableError](err)
	switch {
	case err == nil:
		return nil
	case isProblem:
		return problem
	case isAway:
		return away
	}
	return bridge.UsageProblem(err.Error())
}
