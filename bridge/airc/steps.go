package airc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"baton/federation"
	"baton/translate"
	"baton/translate/aircmsg"
)

// errPlain says that a message is no step. Between two agents that is fine.
var errPlain = fmt.Errorf("airc: plain message: %w", translate.ErrNotHandoff)

// step is what a message asks of a handoff.
type step struct {
	aircmsg.Step

	view    federation.View
	replyTo federation.EventID // the step whose message this one answers
}

// readStep finds the step in a message and the handoff that it is about. It
// returns [errPlain] for a message that is none, and for one to another agent that
// names no handoff.
func (l *Link) readStep(ctx context.Context, d delivery) (step, error) {
	if d.payload == nil {
		return step{}, errPlain
	}
	toAgent := d.recipient.agent != nil
	read, err := aircmsg.Decode(d.payload)
	switch {
	case errors.Is(err, translate.ErrNotHandoff), err != nil && toAgent: // agents may mean anything by a type
		return step{}, errPlain
	case err != nil:
		return step{}, err
	}
	mayBePlain := toAgent && !read.Explicit
	if read.Verb == federation.Offer {
		if mayBePlain {
			return step{}, errPlain
		}
		return step{}, refuse(codeUnsupportedPayload, "a handoff cannot be opened from here")
	}
	s := step{Step: read}
	if err := l.locate(ctx, d, &s); err != nil {
		return step{}, err
	}
	switch {
	case s.view.Exists():
	case mayBePlain:
		return step{}, errPlain
	default:
		return step{}, &federation.RefusalError{Code: federation.UnknownHandoff, Handoff: s.Handoff}
	}
	if s.isAck() && s.replyTo != s.view.ID {
		return step{}, errPlain // it acknowledges a message of the handoff, not the offer
	}
	if !d.recipient.isAny(others(s.view, d.sender)) {
		return step{}, &federation.RefusalError{
			Code: federation.InvalidTarget, Handoff: s.view.ID, View: s.view, Detail: "to is not the handle of the other party",
		}
	}
	return s, nil
}

// isAck reports whether the step was read from an ack.
func (s step) isAck() bool {
	return !s.Explicit && (s.Verb == federation.Accept || s.Verb == federation.Decline)
}

// others returns the parties of a handoff besides an agent.
func others(v federation.View, agent federation.Agent) []federation.DID {
	var dids []federation.DID
	for _, did := range v.Others(agent.DID) {
		if did != agent.OwnDID {
			dids = append(dids, did)
		}
	}
	return dids
}

// locate finds the handoff that a step names, by its id or by the ids of messages
// about it, and leaves the view zero where none is known.
func (l *Link) locate(ctx context.Context, d delivery, s *step) error {
	id := s.Handoff
	for _, ref := range s.Refs {
		m, err := l.deps.Registry.Named(ctx, d.from, ref)
		switch {
		case errors.Is(err, federation.ErrNotFound), err == nil && m.Handoff.IsZero():
			continue
		case err != nil:
			return fmt.Errorf("look up message: %w", err)
		case !id.IsZero() && id != m.Handoff:
			return refuse(codeBadRequest, "the payload names two handoffs")
		}
		id, s.replyTo = m.Handoff, m.Event
	}
	if s.replyTo.IsZero() {
		s.replyTo = id // answers the offer, whose event has the id of the handoff
	}
	if id.IsZero() {
		return nil
	}
	view, err := l.deps.Gateway.View(ctx, id)
	if err != nil {
		return fmt.Errorf("read handoff %s: %w", id, err)
	}
	s.Handoff, s.view = id, view
	return nil
}

// verbs returns the steps to file for the one that was read, in order: AIRC says
// some of them by what it leaves out.
//
// spec: airc-shapes "A step as payload"
func (s step) verbs() []federation.Verb {
	state := s.view.State
	switch {
	case s.Verb == federation.Complete && state == federation.Offered:
		return []federation.Verb{federation.Accept, federation.Complete}
	case s.Verb == federation.Fail && !s.Explicit && (state == federation.Offered || state == federation.Declined):
		// Declined too: the same message again is the same step.
		return []federation.Verb{federation.Decline}
	}
	return []federation.Verb{s.Verb}
}

// lost names what a step could not carry of its message, as the sender knows it.
func (s step) lost(losses []translate.Loss) []string {
	var names []string
	for _, loss := range losses {
		if loss.Field != "context" {
			names = append(names, loss.Field)
			continue
		}
		var members map[string]json.RawMessage
		artifacts := json.Unmarshal([]byte(s.Context), &members) == nil && members["artifacts"] != nil
		if !artifacts || len(members) > 1 {
			names = append(names, "context")
		}
		if artifacts {
			names = append(names, "artifacts")
		}
	}
	return names
}
