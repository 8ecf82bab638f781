package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"baton/bridge/participant"
	"baton/federation"
)

// sendRequest is the parameters of SendMessage.
type sendRequest struct {
	Message json.RawMessage        `json:"message"`
	Config  wire.SendMessageConfig `json:"configuration"`
}

// send files the offer that a message makes, and returns its task and how the client wants it.
func (l *Link) send(ctx context.Context, req request) (*fold, wire.SendMessageConfig, error) {
	p, err := params[sendRequest](req)
	if err == nil {
		err = checkLength(p.Config.HistoryLength)
	}
	if err != nil {
		return nil, p.Config, err
	}
	m, err := parseMessage(p.Message)
	if err == nil && m.TaskID != "" {
		err = l.refuseFollowUp(ctx, req, m)
	}
	if err == nil && p.Config.PushConfig != nil {
		err = l.checkPush(ctx, *p.Config.PushConfig)
	}
	if err != nil {
		return nil, p.Config, err
	}
	view, err := l.offer(ctx, req, m)
	if err == nil && p.Config.PushConfig != nil {
		_, err = l.keepPush(ctx, req.caller, view, *p.Config.PushConfig)
	}
	if err != nil {
		return nil, p.Config, err
	}
	f, err := l.readTask(ctx, view)
	return f, p.Config, err
}

// refuseFollowUp returns why a message cannot belong to a task: a handoff has steps instead of a
// conversation.
func (l *Link) refuseFollowUp(ctx context.Context, req request, m received) error {
	view, err := l.find(ctx, req, m.TaskID)
	if err != nil {
		return err
	}
	f, err := l.fold(ctx, view)
	if err != nil {
		return err
	}
	if m.ContextID != "" && m.ContextID != f.info.ContextID {
		return badParams("message.contextId is not that of the task")
	}
	return fault(codeUnsupported, "a task takes no further messages; offer another one")
}

// offer opens the handoff of a message. A message with the ID of an earlier one at the same
// endpoint returns the handoff of that.
func (l *Link) offer(ctx context.Context, req request, m received) (federation.View, error) {
	o, err := offerOf(m, req.agent)
	if err != nil {
		return federation.View{}, err
	}
	from := participant.Request{Key: keyOf(req.agent, m.ID), Path: requestPath(req.agent), Body: m.raw}
	filed, err := l.access.Offer(ctx, req.caller, o, from)
	if err != nil {
		return federation.View{}, err
	}
	id, err := federation.ParseEventID(filed.ID)
	if err != nil {
		return federation.View{}, fmt.Errorf("read filed offer: %w", err)
	}
	view, err := l.deps.Gateway.View(ctx, id)
	switch {
	case err != nil:
		return federation.View{}, fmt.Errorf("read handoff %s: %w", id, err)
	case !view.Exists():
		return federation.View{}, &federation.UnavailableError{What: "the judgement of the offer", Err: errors.New(filed.Waits)}
	}
	return view, nil
}

// keyOf returns the idempotency key of a message. A client may use the ID of a message again at
// another endpoint.
func keyOf(agent federation.DID, messageID string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", agent, messageID))
	return network + ":" + hex.EncodeToString(sum[:])
}

// isNoHandoff reports whether an error says that there is no handoff for the caller.
func isNoHandoff(err error) bool {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	return ok && refused.Code == federation.UnknownHandoff
}

func errNotCancelable(v federation.View) error {
	return fault(codeNotCancelable, "the task is over: "+string(v.State))
}

// cancelError returns the error of a step cancel. Another step may have ended the task first.
func cancelError(err error, v federation.View) error {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if ok && refused.Code == federation.TerminalHandoff {
		return errNotCancelable(v)
	}
	return err
}
