package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"baton/bridge/bridgetest"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/handofftag"
)

// play shows one handoff across and one back. Alice offers on IRC while scout is
// offline; scout reads it later and answers over AIRC; alice's channel sees each
// answer, signed. Then scout offers, and alice answers in private.
func (s *stage) play(ctx context.Context, line *timeline) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	start := time.Now()
	if err := s.introduce(ctx, line); err != nil {
		return err
	}
	if err := s.offer(ctx, line); err != nil {
		return fmt.Errorf("offer: %w", err)
	}
	request, from, err := s.readOffer(ctx)
	if err != nil {
		return fmt.Errorf("read offer: %w", err)
	}
	for _, answer := range demoAnswers(request) {
		if err := s.answer(ctx, line, from, answer); err != nil {
			return fmt.Errorf("%s: %w", answer.verb, err)
		}
	}
	if err := s.back(ctx, line, from); err != nil {
		return fmt.Errorf("way back: %w", err)
	}
	return s.summary(ctx, line, time.Since(start))
}

// introduce registers the agent and gives alice a key.
func (s *stage) introduce(ctx context.Context, line *timeline) error {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return err
	}
	s.agent = bridgetest.NewAgent(s.program.publicURL, demoAgent, seed)
	if err := s.agent.Register(ctx); err != nil {
		return err
	}
	var err error
	if s.alice, err = newSigner(); err != nil {
		return err
	}
	line.people = map[federation.DID]string{
		federation.DID(s.agent.DID): demoAgent + ", AIRC",
		s.alice.DID:                 demoPerson + ", IRC " + demoChannel,
	}
	return nil
}

// offer signs an offer as an IRC user would and writes it into the channel.
func (s *stage) offer(ctx context.Context, line *timeline) error {
	ev, err := s.sign(ctx, federation.Event{
		Verb: federation.Offer, To: federation.DID(s.agent.DID), Venue: demoChannel, Title: "Cite three sources on X",
		Caps: []string{"web-search"}, Deadline: time.Now().Add(time.Hour),
	})
	if err != nil {
		return err
	}
	s.ircd.Tagmsg(demoPerson, demoChannel, translate.Wire(ev, nil))
	filed, err := s.filed(ctx, ev.ID, 1)
	if err != nil {
		return err
	}
	line.step(filed, s.agent.DID)
	return poll(ctx, "offer in the inbox", func() (bool, error) {
		inbox, err := s.program.record.Replay(ctx, federation.DID(s.agent.DID), "", 1)
		if len(inbox) == 1 {
			line.event("deliver", ev.ID, "inbox of "+demoAgent+", offline")
		}
		return len(inbox) == 1, err
	})
}

// sign completes a step of alice's and signs it. An offer opens a handoff; any
// other step names its own.
func (s *stage) sign(ctx context.Context, ev federation.Event) (federation.Event, error) {
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

// newSigner makes a did:key for somebody on IRC.
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

// filed waits until the home has filed a step of a handoff.
func (s *stage) filed(ctx context.Context, id federation.HandoffID, version federation.Version) (federation.Entry, error) {
	var found federation.Entry
	err := poll(ctx, fmt.Sprintf("step %d on file", version), func() (bool, error) {
		for entry, err := range s.program.record.Log(ctx, id) {
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

// readOffer polls as the agent does: first there is only the registry's question,
// and when that was answered, the offer. It returns the id and the sender of the
// offer's message.
func (s *stage) readOffer(ctx context.Context) (id, from string, err error) {
	err = poll(ctx, "offer at the agent", func() (bool, error) {
		messages, next, err := s.agent.Inbox(ctx, s.cursor)
		if err != nil {
			return false, err
		}
		s.cursor = next
		for _, text := range messages {
			m, err := s.readMessage(text)
			if err != nil {
				return false, err
			}
			switch m.Payload.Type {
			case "system:handshake_request":
				if status, answer, err := s.agent.Consent(ctx, m.Payload.Data.Requester, "accept"); err != nil || status != 200 {
					return false, fmt.Errorf("consent: status %d, %v: %w", status, answer, err)
				}
			case "task:request":
				id, from = m.ID, m.From
			}
		}
		return id != "", nil
	})
	return id, from, err
}

// demoMessage is as much of a message as the agent looks at.
type demoMessage struct {
	ID, From string
	Payload  struct {
		Type string
		Data struct {
			Requester string
			Handoff   struct {
				EventID string `json:"event_id"`
			}
		}
	}
}

// readMessage reads a message that the registry signed.
func (s *stage) readMessage(text json.RawMessage) (demoMessage, error) {
	var m demoMessage
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	return m, s.agent.Verify(text)
}

// demoAnswer is one message of the agent and the step that it becomes.
type demoAnswer struct {
	verb    federation.Verb
	body    string
	payload map[string]any
}

func demoAnswers(request string) []demoAnswer {
	payload := func(kind string, data map[string]any) map[string]any {
		return map[string]any{"type": kind, "data": data}
	}
	return []demoAnswer{
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

// timeline prints what happened, a line each.
type timeline struct {
	out    io.Writer
	people map[federation.DID]string
	steps  int
}

// step prints a filed step: who signed it for whom, on whose word it rests, and
// the verdict, without which it would not be on file.
func (l *timeline) step(e federation.Entry, to string) {
	l.steps++
	if name, ok := l.people[federation.DID(to)]; ok {
		to = federation.DID(to).Short() + "(" + name + ")"
	}
	from := e.Event.From.Short() + "(" + l.people[e.Event.From] + ")"
	l.event(string(e.Event.Verb), e.Event.Handoff, fmt.Sprintf("%-36s ->  %-36s %-8s %s  filed", from, to, e.Event.Provenance, federation.Valid))
}

func (l *timeline) event(what string, id federation.HandoffID, text string) {
	fmt.Fprintf(l.out, "%s %-9s …%s  %s\n", time.Now().UTC().Format("15:04:05.000"), what, id.Short(), text)
}
