package airc

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/handofftag"
)

// submit asks the home to file the step of a message, and with it what the step
// takes for granted. It answers for the last of them.
func (l *Link) submit(ctx context.Context, d delivery, s step) (*filed, error) {
	evidence, err := l.testify(d.envelope, d.key, d.received)
	if err != nil {
		return nil, err
	}
	verbs := s.verbs()
	for _, implied := range verbs[:len(verbs)-1] {
		bare := step{view: s.view, replyTo: s.view.ID}
		if _, err := l.file(ctx, d, bare, implied, evidence); err != nil {
			return nil, err
		}
	}
	return l.file(ctx, d, s, verbs[len(verbs)-1], evidence)
}

// file vouches for one step and submits it.
func (l *Link) file(ctx context.Context, d delivery, s step, verb federation.Verb, evidence *federation.Evidence) (*filed, error) {
	ev, losses, err := l.vouch(ctx, d, s, verb, evidence)
	if err != nil {
		return nil, err
	}
	judged, err := l.deps.Gateway.Submit(ctx, ev)
	if err != nil {
		return nil, judgedError{fmt.Errorf("submit %s of %s: %w", verb, s.view.ID, err)}
	}
	return &filed{
		ID: judged.Entry.Event.Handoff, Event: judged.Entry.Event.Verb, EventID: judged.Entry.Event.ID,
		State: judged.Entry.State, Lost: s.lost(losses),
	}, nil
}

// vouch returns a step in the words of its handoff, signed with the key that the
// gateway keeps for the agent. The agent's own signature is in the evidence: it
// covers an AIRC message and could never stand for these bytes.
func (l *Link) vouch(ctx context.Context, d delivery, s step, verb federation.Verb, evidence *federation.Evidence) (federation.Event, []translate.Loss, error) {
	id, err := federation.NewEventID(d.received, rand.Reader)
	if err != nil {
		return federation.Event{}, nil, err
	}
	key := l.deps.Kept(d.sender.Handle)
	ev := federation.Event{
		ID: id, Handoff: s.view.ID, Kind: s.view.Kind, Verb: verb,
		From: key.DID, For: standsFor(s.view, d.sender), Venue: s.view.Venue, Dialect: s.view.Dialect,
		ReplyTo: s.replyTo.String(), Note: s.Note, Context: s.Context,
		Provenance: federation.Vouched, Evidence: evidence,
		Arrival: federation.Arrival{Network: network, Link: network, Name: d.sender.Handle, Received: d.received},
	}
	fields, losses := handofftag.Write(ev)
	ev.Fields = fields
	ev, err = signing.Seal(ctx, key, ev)
	if err != nil {
		return federation.Event{}, nil, fmt.Errorf("vouch for %s: %w", d.sender.Handle, err)
	}
	return ev, losses, nil
}

// standsFor returns the agent's own DID where the handoff knows the agent by that
// one alone.
func standsFor(v federation.View, agent federation.Agent) federation.DID {
	parties := v.Others("")
	if !slices.Contains(parties, agent.DID) && slices.Contains(parties, agent.OwnDID) {
		return agent.OwnDID
	}
	return ""
}
