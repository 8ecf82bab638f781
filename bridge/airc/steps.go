package airc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"baton/federation"
	"baton/federation/agents"
	"baton/translate"
	"baton/translate/aircmsg"
)

// errPlain says that a message is no step. Between two agents that is fine.
var errPlain = fmt.Errorf("airc: plain message: %w", translate.ErrNotHandoff)

// step is what a message asks of a handoff.
type step struct {
	aircmsg.Step

	view    federation.View    // zero of an offer
	replyTo federation.EventID // the step whose message this one answers
}

// readStep reads the step in a message and the handoff it refers to, which does not exist yet for
// an offer. It returns [errPlain] for a plain message, and for a message between agents that names
// no handoff. It rejects any other payload that opens or names a handoff but is not a valid step.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) readStep(ctx context.Context, d *delivery) (step, error) {
	if d.payload == nil {
		return step{}, errPlain
	}
	read, err := aircmsg.Decode(d.payload)
	mayBePlain := d.recipient.agent != nil && !read.Explicit // agents may mean anything by a type
	switch {
	case errors.Is(err, translate.ErrNotHandoff):
		return step{}, errPlain
	case err != nil && mayBePlain && read.Verb != federation.Offer:
		return step{}, l.refuseNamed(ctx, d, step{Step: read}, err)
	case err != nil:
		return step{}, err
	case read.Verb == federation.Offer && d.recipient.handle == d.from && mayBePlain:
		return step{}, errPlain // a note to oneself
	case read.Verb == federation.Offer && d.recipient.handle == d.from:
		return step{}, misdirected(federation.View{}, "an offer needs another recipient than its author")
	case read.Verb == federation.Offer:
		return step{Step: read}, nil
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
	if parties := others(s.view, d.sender); !d.recipient.isAny(parties) && (d.recipient.did() != "" || len(parties) > 0) {
		return step{}, misdirected(s.view, "to is not the handle of the other party")
	}
	return s.fitted(), nil
}

// refuseNamed returns the refusal of an unreadable step, or [errPlain] if the message names no
// handoff: between agents its type may mean anything.
func (l *Link) refuseNamed(ctx context.Context, d *delivery, s step, refusal error) error {
	if err := l.locate(ctx, d, &s); err != nil {
		return err
	}
	if !s.view.Exists() {
		return errPlain
	}
	return refusal
}

func misdirected(v federation.View, detail string) error {
	return &federation.RefusalError{Code: federation.InvalidTarget, Handoff: v.ID, View: v, Detail: detail}
}

// isAck reports whether the step was read from an ack.
func (s step) isAck() bool {
	return !s.Explicit && (s.Verb == federation.Accept || s.Verb == federation.Decline)
}

// fitted returns the step as the one that its handoff has a place for: AIRC has one
// word for some that differ.
//
// spec: airc-shapes "A step as payload"
func (s step) fitted() step {
	switch {
	case s.Explicit:
	case s.Verb == federation.Accept && s.view.Offeree == "":
		s.Verb = federation.Claim
	case s.Verb == federation.Fail && (s.view.State == federation.Offered || s.view.State == federation.Declined):
		s.Verb = federation.Decline // declined too: the same message again is the same step
	}
	return s
}

// implied returns the step that a completion takes for granted, "" where it takes
// none.
func (s step) implied() federation.Verb {
	switch {
	case s.Verb != federation.Complete:
	case s.view.State == federation.Offered:
		return federation.Accept
	case s.view.State == federation.Open:
		return federation.Claim
	}
	return ""
}

// others returns the parties of a handoff besides an agent.
func others(v federation.View, agent agents.Agent) []federation.DID {
	var dids []federation.DID
	for _, did := range v.Others(agent.DID) {
		if !agent.Is(did) {
			dids = append(dids, did)
		}
	}
	return dids
}

// locate finds the handoff that a step names, by its id or by the ids of messages
// about it, and leaves the view zero where none is known.
func (l *Link) locate(ctx context.Context, d *delivery, s *step) error {
	id := s.Handoff
	for _, ref := range s.Refs {
		m, err := l.deps.Record.Named(ctx, d.from, ref)
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

// lost names what a step could not carry of its message, as the sender knows it.
func (s step) lost(losses []federation.Loss) []string {
	var names []string
	for _, loss := range slices.Concat(s.Losses, losses) {
		if loss.Field != "context" {
			names = append(names, loss.Field)
			continue
		}
		var members map[string]json.RawMessage
		artifacts := s.Verb != federation.Offer && federation.DecodeJSON([]byte(s.Context), &members) == nil && members["artifacts"] != nil
		if !artifacts || len(members) > 1 {
			names = append(names, "context")
		}
		if artifacts {
			names = append(names, "artifacts")
		}
	}
	return names
}
