package a2aclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/a2atask"
)

// Addressee implements [bridge.Messenger].
func (l *Link) Addressee(_ context.Context, nick string) (federation.DID, error) {
	if !strings.EqualFold(nick, l.cfg.Name) {
		return "", federation.ErrNotFound
	}
	return l.did, nil
}

// Here implements [bridge.Messenger].
func (*Link) Here(context.Context, bridge.Recipient) (string, bool) { return "", true }

// DeliverText implements [bridge.TextLink]. A message from the offerer continues a waiting task. Without a
// reference, exactly one task must be waiting.
func (l *Link) DeliverText(ctx context.Context, text federation.Text) error {
	waiting, err := l.waiting(ctx, text)
	if err != nil {
		return err
	}
	switch {
	case len(waiting) == 0:
		return text.Refuse(federation.IllegalStep, l.cfg.Name+" takes messages only as answers to a question about a task; offer a handoff")
	case len(waiting) > 1:
		return text.Refuse(federation.WrongReference, "several tasks of "+l.cfg.Name+" wait for an answer; reply to the question, or name the handoff")
	}
	return l.answerTask(ctx, waiting[0], text)
}

var errUnread = errors.New("a task was not read yet after a reconnect")

// waiting returns an error while a task that may wait for the answer is unread.
func (l *Link) waiting(ctx context.Context, text federation.Text) ([]*task, error) {
	l.mu.Lock()
	candidates := make([]*task, 0, len(l.tasks))
	for id, t := range l.tasks {
		if text.About.IsZero() || id == text.About {
			candidates = append(candidates, t)
		}
	}
	l.mu.Unlock()
	var found []*task
	for _, t := range candidates {
		t.mu.Lock()
		asked, unread := t.asked || t.reply == text.ID.String(), !t.read
		made := t.id != ""
		t.mu.Unlock()
		if !made || !asked && !unread {
			continue
		}
		view, err := l.ports.Gateway.View(ctx, t.handoff)
		if err != nil {
			return nil, fmt.Errorf("read handoff %s: %w", t.handoff, err)
		}
		same, err := l.ports.Gateway.Same(ctx, view.Offerer, text.Author)
		if err != nil {
			return nil, err
		}
		switch {
		case !same || view.Over:
		case asked:
			found = append(found, t)
		default:
			return nil, l.away(errUnread)
		}
	}
	return found, nil
}

// answerTask does nothing if the agent already has the answer.
func (l *Link) answerTask(ctx context.Context, t *task, text federation.Text) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := l.load(ctx, t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	id := text.ID.String()
	if t.reply == id { // an earlier attempt had no response
		found, err := l.client.Load().GetTask(ctx, &wire.GetTaskRequest{ID: t.id})
		if err != nil {
			return l.away(err)
		}
		if slices.ContainsFunc(found.History, func(m *wire.Message) bool { return m != nil && m.ID == id }) {
			return l.answered(ctx, t)
		}
	}
	if err := l.write(ctx, t, note{Kind: noteReply, Event: id}); err != nil {
		return err
	}
	none := 0
	_, err := l.client.Load().SendMessage(ctx, &wire.SendMessageRequest{
		Message: a2atask.Answer(text.ID, t.id, t.context, text.Body), Config: &wire.SendMessageConfig{ReturnImmediately: true, HistoryLength: &none},
	})
	switch {
	case err == nil:
		return l.answered(context.WithoutCancel(ctx), t)
	case isAny(err, refusals()...), errors.Is(err, wire.ErrTaskNotFound):
		return text.Refuse(federation.PolicyDenied, l.cfg.Name+" refused the answer: "+err.Error())
	case isNetwork(err):
		return l.away(err)
	}
	if _, ok := errors.AsType[*statusError](err); ok {
		return l.away(err)
	}
	return fmt.Errorf("answer task %s: %w", t.id, err)
}

func (l *Link) answered(ctx context.Context, t *task) error {
	t.asked = false
	t.look()
	return l.write(ctx, t, note{Kind: noteReplied})
}
