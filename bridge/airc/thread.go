package airc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"baton/federation"
)

// getThread answers GET /messages/thread/{handle}: what the caller and another
// wrote to each other.
//
// spec: airc-v0.1.1 §7.4
func (l *Link) getThread(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	query := c.URL.Query()
	limit, err := pageSize(query.Get("limit"))
	if err != nil {
		return answer{}, err
	}
	var after uint64
	if text := query.Get("after_seq"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 63); err != nil {
			return answer{}, refuse(codeBadRequest, "after_seq is not a seq")
		}
	}
	peer, err := l.correspondent(c.Context(), c.PathValue("handle"))
	if err != nil {
		return answer{}, err
	}
	messages, more, err := l.deps.Record.Thread(c.Context(), agent.Handle, peer, after, limit)
	if err != nil {
		return answer{}, fmt.Errorf("read thread: %w", err)
	}
	p := page{messages, more}
	text, err := l.list(c.Context(), p, nil)
	return answer{status: http.StatusOK, body: text, after: l.shown(agent, p)}, err
}

// correspondent returns the handle that a thread is kept under. Roles have threads
// too.
func (l *Link) correspondent(ctx context.Context, handle string) (string, error) {
	if handle == systemHandle || handle == anyoneHandle {
		return handle, nil
	}
	who, err := known(l.find(ctx, handle))
	return who.handle, err
}

// postAck answers POST /messages/{id}/ack: the caller has read a message. Its sender
// is not told.
//
// spec: airc-v0.1.1 §7.4
func (l *Link) postAck(c *call) (answer, error) {
	return l.settle(c, "read", func(ctx context.Context, handle, id string) error {
		return l.deps.Record.MarkRead(ctx, handle, id, time.Now())
	})
}

// deleteMessage answers DELETE /messages/{id}: the caller keeps a message no longer,
// its sender does.
//
// spec: airc-v0.1.1 §7.4
func (l *Link) deleteMessage(c *call) (answer, error) {
	return l.settle(c, "deleted", l.deps.Record.Delete)
}

// settle changes what becomes of one message that its caller was delivered.
func (l *Link) settle(c *call, status string, change func(ctx context.Context, handle, id string) error) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	id := c.PathValue("id")
	err = change(c.Context(), agent.Handle, id)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, refuse(codeNotFound, "you have no message with this id")
	case err != nil:
		return answer{}, fmt.Errorf("note message %s: %w", status, err)
	}
	return answer{status: http.StatusOK, body: struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}{id, status}}, nil
}
