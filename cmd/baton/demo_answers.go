package main

import (
	"context"
	"fmt"
	"time"

	"baton/bridge/bridgetest"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/handofftag"
)

// answer sends one answer of the agent and waits until alice's channel has seen it
// and its signature holds.
func (s *stage) answer(ctx context.Context, line *timeline, to string, a demoAnswer) error {
	if err := s.send(ctx, to, a); err != nil {
		return err
	}
	entry, err := s.seen(ctx, a.verb)
	if err == nil {
		line.step(entry, "IRC "+demoChannel)
	}
	return err
}

func (s *stage) send(ctx context.Context, to string, a demoAnswer) error {
	status, got, err := s.agent.Send(ctx, to, a.body, a.payload)
	if err != nil || status != 201 {
		return fmt.Errorf("status %d, %v: %w", status, got, err)
	}
	return nil
}

// seen waits for a step of the agent on IRC, checks its signature as anybody there
// could, and returns it as it is on file.
func (s *stage) seen(ctx context.Context, verb federation.Verb) (federation.Entry, error) {
	m, err := s.ircd.Next(ctx, func(m bridgetest.IRCMessage) bool {
		return m.Command == "TAGMSG" && m.Tags["+freeq.at/handoff"] == string(verb)
	})
	if err != nil {
		return federation.Entry{}, err
	}
	ev, err := handofftag.Codec{}.Decode(translate.Tagged{Command: m.Command, Target: m.Params[0], Tags: m.Tags})
	if err != nil {
		return federation.Entry{}, err
	}
	if ev.Venue == "" { // it came to alice alone
		ev.Venue = s.privateVenue()
	}
	if _, verdict, err := signing.Verify(ctx, s.program.keys.Load(), ev); verdict != federation.Valid {
		return federation.Entry{}, fmt.Errorf("its signature is %s: %w", verdict, err)
	}
	for entry, err := range s.program.record.Log(ctx, ev.Handoff) {
		if err != nil || entry.Event.ID == ev.ID {
			return entry, err
		}
	}
	return federation.Entry{}, fmt.Errorf("step %s is not on file", ev.ID)
}

func (s *stage) privateVenue() string {
	return federation.PrivateVenue(s.alice.DID, federation.DID(s.agent.DID))
}

// back shows a handoff that starts at the agent: it reaches alice in private,
// because she is online, and her answers reach the agent.
func (s *stage) back(ctx context.Context, line *timeline, alice string) error {
	request := demoAnswer{federation.Offer, "please check my sources", map[string]any{
		"type": "task:request", "data": map[string]any{
			"description": "Check the three sources", "deadline": time.Now().Add(time.Hour).Unix(),
		},
	}}
	if err := s.send(ctx, alice, request); err != nil {
		return fmt.Errorf("offer: %w", err)
	}
	offer, err := s.seen(ctx, federation.Offer)
	if err != nil {
		return fmt.Errorf("offer: %w", err)
	}
	line.step(offer, string(s.alice.DID))
	version := offer.Version
	for _, verb := range []federation.Verb{federation.Accept, federation.Complete} {
		version++
		if err := s.reply(ctx, line, offer.Event.Handoff, verb, version); err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
	}
	return nil
}

// reply sends one answer of alice's to the agent's nick and waits until the agent
// has read it.
func (s *stage) reply(ctx context.Context, line *timeline, id federation.HandoffID, verb federation.Verb, version federation.Version) error {
	ev, err := s.sign(ctx, federation.Event{Verb: verb, Handoff: id, Venue: s.privateVenue(), ReplyTo: id.String()})
	if err != nil {
		return err
	}
	s.ircd.Tagmsg(demoPerson, demoAgent, translate.Wire(ev, nil))
	filed, err := s.filed(ctx, id, version)
	if err != nil {
		return err
	}
	line.step(filed, s.agent.DID)
	return poll(ctx, "answer at the agent", func() (bool, error) {
		messages, next, err := s.agent.Inbox(ctx, s.cursor)
		if err != nil {
			return false, err
		}
		s.cursor = next
		for _, text := range messages {
			m, err := s.readMessage(text)
			if err != nil || m.Payload.Data.Handoff.EventID == ev.ID.String() {
				return err == nil, err
			}
		}
		return false, nil
	})
}

// summary waits until nothing is owed to anybody and says how it went.
func (s *stage) summary(ctx context.Context, line *timeline, took time.Duration) error {
	err := poll(ctx, "deliveries to settle", func() (bool, error) {
		owed, err := s.program.record.Owed(ctx, demoLink, 0, 1)
		return len(owed) == 0, err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(line.out, "completed in %d ms: %d steps, %d delivered, 0 waiting\n", took.Milliseconds(), line.steps, line.steps)
	return err
}
