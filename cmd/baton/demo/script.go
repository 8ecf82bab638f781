package demo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/aircagent"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/handofftag"
)

func (s *Stage) play(ctx context.Context, line *timeline) error {
	start := time.Now()
	if err := s.introduce(ctx, line); err != nil {
		return err
	}
	if err := s.offer(ctx, line); err != nil {
		return fmt.Errorf("offer: %w", err)
	}
	offer, err := s.readOffer(ctx)
	if err != nil {
		return fmt.Errorf("read offer: %w", err)
	}
	for _, a := range answers(offer.ID) {
		if err := s.answer(ctx, line, offer.From, a); err != nil {
			return fmt.Errorf("%s: %w", a.verb, err)
		}
	}
	if err := s.back(ctx, line, offer.From); err != nil {
		return fmt.Errorf("way back: %w", err)
	}
	return s.summary(ctx, line, time.Since(start))
}

func (s *Stage) introduce(ctx context.Context, line *timeline) error {
	var err error
	if s.agent, err = aircagent.New(s.gateway.URL(), agent); err != nil {
		return err
	}
	if err := s.agent.Register(ctx); err != nil {
		return err
	}
	if s.alice, err = newSigner(); err != nil {
		return err
	}
	line.people = map[federation.DID]string{
		s.agent.DID(): agent + ", AIRC",
		s.alice.DID:   person + ", IRC " + channel,
	}
	return nil
}

func newSigner() (federation.SigningKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return federation.SigningKey{}, err
	}
	return federation.SigningKey{
		Public: public, DID: identity.KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}, nil
}

// offer waits until the offer is in the agent's inbox.
func (s *Stage) offer(ctx context.Context, line *timeline) error {
	to := s.agent.DID()
	ev, err := s.sign(ctx, federation.Event{
		Verb: federation.Offer, To: to, Venue: channel, Title: "Cite three sources on X",
		Caps: []string{"web-search"}, Deadline: time.Now().Add(time.Hour),
	})
	if err != nil {
		return err
	}
	if err := s.ircd.tagmsg(channel, translate.Wire(ev, nil)); err != nil {
		return err
	}
	filed, err := s.filed(ctx, ev.ID, 1)
	if err != nil {
		return err
	}
	line.step(filed, string(s.agent.DID()))
	return poll(ctx, "offer in the inbox", func() (bool, error) {
		inbox, err := s.gateway.Replay(ctx, to, "", 1)
		if len(inbox) == 1 {
			line.event("deliver", ev.ID, "inbox of "+agent+", offline")
		}
		return len(inbox) == 1, err
	})
}

// An offer opens a handoff; other steps name theirs.
func (s *Stage) sign(ctx context.Context, ev federation.Event) (federation.Event, error) {
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		return ev, err
	}
	ev.ID, ev.From, ev.Dialect = id, s.alice.DID, federation.HandoffTags
	if ev.Verb == federation.Offer {
		ev.Handoff = id
	}
	ev.Fields, _ = handofftag.Write(ev) // nothing here is too long
	return signing.Seal(ctx, s.alice, ev)
}

func (s *Stage) filed(ctx context.Context, id federation.HandoffID, version federation.Version) (federation.Entry, error) {
	var found federation.Entry
	err := poll(ctx, fmt.Sprintf("step %d on file", version), func() (bool, error) {
		for entry, err := range s.gateway.Log(ctx, id, 0) {
			if err != nil {
				return false, err
			}
			if entry.Version == version {
				found = entry
				return true, nil
			}
		}
		return false, nil
	})
	return found, err
}

// The first message asks for consent, and the offer follows.
func (s *Stage) readOffer(ctx context.Context) (aircagent.Message, error) {
	var offer aircagent.Message
	err := poll(ctx, "offer at the agent", func() (bool, error) {
		messages, err := s.agent.Inbox(ctx, 0)
		for _, m := range messages {
			switch m.Payload.Type {
			case "system:handshake_request":
				if err := s.agent.Consent(ctx, m.Payload.Data.Requester); err != nil {
					return false, err
				}
			case "task:request":
				offer = m
			}
		}
		return offer.ID != "", err
	})
	return offer, err
}

type reply struct {
	verb    federation.Verb
	body    string
	payload map[string]any
}

func answers(request string) []reply {
	payload := func(kind string, data map[string]any) map[string]any {
		return map[string]any{"type": kind, "data": data}
	}
	return []reply{
		{federation.Accept, "on it", payload("ack", map[string]any{"replyTo": request, "status": "received"})},
		{federation.Progress, "two of three", payload("task:result", map[string]any{
			"requestId": request, "status": "partial", "result": map[string]any{"note": "two of three"},
		})},
		{federation.Complete, "done", payload("task:result", map[string]any{
			"requestId": request, "status": "completed", "result": map[string]any{"note": "three sources"},
			"artifacts": []string{"https://example.com/1", "https://example.com/2", "https://example.com/3"},
		})},
	}
}

// answer waits until the channel has the answer.
func (s *Stage) answer(ctx context.Context, line *timeline, to string, a reply) error {
	if err := s.agent.Send(ctx, to, a.body, a.payload); err != nil {
		return err
	}
	entry, err := s.seen(ctx, a.verb)
	if err == nil {
		line.step(entry, "IRC "+channel)
	}
	return err
}

func (s *Stage) seen(ctx context.Context, verb federation.Verb) (federation.Entry, error) {
	m, err := s.ircd.next(ctx, "+freeq.at/handoff", string(verb))
	if err != nil {
		return federation.Entry{}, err
	}
	ev, err := handofftag.Codec{}.Decode(translate.Tagged{Command: m.Command, Target: m.Params[0], Tags: m.AllTags()})
	if err != nil {
		return federation.Entry{}, err
	}
	if ev.Venue == "" { // only alice received it
		ev.Venue = s.privateVenue()
	}
	if _, verdict, err := signing.Verify(ctx, s.gateway.Keys(), ev); verdict != federation.Valid {
		return federation.Entry{}, fmt.Errorf("its signature is %s: %w", verdict, err)
	}
	for entry, err := range s.gateway.Log(ctx, ev.Handoff, 0) {
		if err != nil || entry.Event.ID == ev.ID {
			return entry, err
		}
	}
	return federation.Entry{}, fmt.Errorf("step %s is not on file", ev.ID)
}

func (s *Stage) privateVenue() string {
	return federation.PrivateVenue(s.alice.DID, s.agent.DID())
}

// back shows a handoff offered by the agent. The offer reaches alice in private, because she is
// online, and her answers reach the agent.
func (s *Stage) back(ctx context.Context, line *timeline, alice string) error {
	err := s.agent.Send(ctx, alice, "please check my sources", map[string]any{
		"type": "task:request", "data": map[string]any{
			"description": "Check the three sources", "deadline": time.Now().Add(time.Hour).Unix(),
		},
	})
	if err != nil {
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

// reply waits until the agent has read the answer.
func (s *Stage) reply(ctx context.Context, line *timeline, id federation.HandoffID, verb federation.Verb, version federation.Version) error {
	ev, err := s.sign(ctx, federation.Event{Verb: verb, Handoff: id, Venue: s.privateVenue(), ReplyTo: id.String()})
	if err != nil {
		return err
	}
	if err := s.ircd.tagmsg(agent, translate.Wire(ev, nil)); err != nil {
		return err
	}
	filed, err := s.filed(ctx, id, version)
	if err != nil {
		return err
	}
	line.step(filed, string(s.agent.DID()))
	return poll(ctx, "answer at the agent", func() (bool, error) {
		messages, err := s.agent.Inbox(ctx, 0)
		for _, m := range messages {
			if m.Payload.Data.Handoff.EventID == ev.ID.String() {
				return true, nil
			}
		}
		return false, err
	})
}

func (s *Stage) summary(ctx context.Context, line *timeline, took time.Duration) error {
	err := poll(ctx, "deliveries to settle", func() (bool, error) {
		owed, err := s.gateway.Outbox(ctx, link, federation.Delivery{}, 1)
		return len(owed) == 0, err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(line.out, "completed in %d ms: %d steps, %d delivered, 0 waiting\n", took.Milliseconds(), line.steps, line.steps)
	return err
}
