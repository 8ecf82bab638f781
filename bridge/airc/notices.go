package airc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
	"baton/translate/aircmsg"
)

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier]: it sends a message from the registry, but only to a
// present agent. The id of the message comes from the notice, so that repeats are the same
// message.
func (l *Link) Notify(ctx context.Context, n federation.Notice) error {
	ev := n.Event
	agent, err := l.deps.Record.AgentOf(ctx, n.Reader())
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up agent: %w", err)
	}
	if n.Kind == federation.NoticeDisabled {
		return l.tellDisabled(ctx, agent, n)
	}
	v, err := l.deps.Gateway.View(ctx, ev.Handoff)
	if err != nil {
		return fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	data := members{"notice": n.Kind, "messageId": ev.WireID()}
	if !ev.IsMessage() {
		data["handoff"] = filed{ID: ev.Handoff, Event: ev.Verb, EventID: ev.ID, State: v.State}
	}
	if n.Code != "" {
		data["code"] = n.Code
	}
	m, err := l.seal(ctx, outgoing{
		ID: sumID(string(ev.From), ev.ID.String(), string(n.Kind)), From: systemHandle, To: agent.Handle, Body: sentenceOf(n),
		Payload: aircmsg.Payload{Type: aircmsg.TypeHandoff, Data: data},
	}, time.Now())
	if err != nil {
		return err
	}
	m.Handoff = ev.Handoff
	return l.putOnce(ctx, m)
}

// putOnce files a message that may have been told before the record knew that.
func (l *Link) putOnce(ctx context.Context, m agents.Message) error {
	if _, err := l.put(ctx, agents.Posting{Message: m}); !errors.Is(err, agents.ErrDuplicate) {
		return err
	}
	return nil
}

// sentenceOf returns a notice as a whole sentence.
func sentenceOf(n federation.Notice) string {
	sentence := n.Sentence()
	return strings.ToUpper(sentence[:1]) + sentence[1:] + "."
}

// sumID returns the id of the message that carries a notice: the same one however often
// it is written.
func sumID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, " ")))
	return "sys_" + base64.RawURLEncoding.EncodeToString(sum[:messageIDBytes])
}
