package airc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
	"baton/translate/aircmsg"
)

var _ bridge.Teller = (*Link)(nil)

// notice is what an agent is told of a step of its own later than its 2xx.
//
// spec: airc-shapes "A step as payload"
type notice struct {
	Type string     `json:"type"`
	Data noticeData `json:"data"`
}

type noticeData struct {
	Notice  string                 `json:"notice"`
	Code    federation.RefusalCode `json:"code"`
	Handoff filed                  `json:"handoff"`
}

// Tell implements [bridge.Teller]: it sends a notice from the registry to a present agent,
// and nothing to a removed one.
func (l *Link) Tell(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	agent, err := l.deps.Record.AgentOf(ctx, ev.From)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up agent: %w", err)
	}
	state := refused.View.State
	if state == "" {
		v, err := l.deps.Gateway.View(ctx, ev.Handoff)
		if err != nil {
			return fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
		}
		state = v.State
	}
	body := fmt.Sprintf("Your %s of handoff %s was refused: %s.", ev.Verb, ev.Handoff.Short(), refused.Sentence())
	m, err := l.seal(ctx, outgoing{From: systemHandle, To: agent.Handle, Body: body, Payload: notice{Type: aircmsg.TypeHandoff, Data: noticeData{
		Notice: "refused", Code: refused.Code, Handoff: filed{ID: ev.Handoff, Event: ev.Verb, EventID: ev.ID, State: state},
	}}}, time.Now())
	if err != nil {
		return err
	}
	m.Handoff = ev.Handoff
	_, err = l.put(ctx, agents.Posting{Message: m})
	return err
}
