package airc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/fault"
)

// How many messages one answer holds.
const (
	defaultPage = 50
	maxPage     = 100
)

// recheck is when a waiting request looks by itself: a wake-up may have been lost.
const recheck = time.Second

// page is some messages, and whether there are more.
type page struct {
	messages []agents.Message
	more     bool
}

// getInbox answers GET /messages/inbox. Reading changes nothing there; what was
// handed out does not wait for its agent any more.
//
// spec: airc-v0.1.1 §7.4
func (l *Link) getInbox(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	query := c.URL.Query()
	limit, err := pageSize(query.Get("limit"))
	if err != nil {
		return answer{}, err
	}
	wait, err := l.patience(query.Get("wait"))
	if err != nil {
		return answer{}, err
	}
	next := federation.Cursor(query.Get("cursor"))
	p, err := l.await(c.Context(), agent.Handle, wait, func() (page, error) {
		if err := l.stillIn(c); wait > 0 && err != nil { // the end of the session wakes the request too
			return page{}, err
		}
		messages, more, err := l.deps.Record.Inbox(c.Context(), agent.Handle, next, limit)
		return page{messages, more}, err
	})
	if err != nil {
		return answer{}, fmt.Errorf("read inbox: %w", err)
	}
	if n := len(p.messages); n > 0 {
		next = p.messages[n-1].Cursor
	}
	cursor, err := json.Marshal(next)
	if err != nil {
		return answer{}, fmt.Errorf("write cursor: %w", err)
	}
	text, err := l.list(c.Context(), p, fmt.Appendf(nil, `"nextCursor":%s,`, cursor))
	return answer{status: http.StatusOK, body: text, after: l.shown(agent, p)}, err
}

// await reads until there is something, for as long as a client waits.
func (l *Link) await(ctx context.Context, handle string, wait time.Duration, read func() (page, error)) (page, error) {
	if wait == 0 {
		return read()
	}
	wake, stop := l.deps.Wakes.Subscribe(bridge.InboxTopic(handle)) // before the first look, so that nothing falls between
	defer stop()
	end, again := time.NewTimer(wait), time.NewTicker(recheck)
	defer end.Stop()
	defer again.Stop()
	for {
		p, err := read()
		if err != nil || len(p.messages) > 0 {
			return p, err
		}
		select {
		case <-wake:
		case <-again.C:
		case <-end.C:
			return read()
		case <-l.ended:
			return p, nil
		case <-ctx.Done():
			return p, nil
		}
	}
}

// shown notes that some messages do not wait for their agent any more, and the steps
// in them under none of its DIDs.
func (l *Link) shown(agent agents.Agent, p page) func(context.Context) error {
	var events []federation.EventID
	for _, m := range p.messages {
		if !m.Event.IsZero() {
			events = append(events, m.Event)
		}
	}
	if len(p.messages) == 0 {
		return nil
	}
	newest := p.messages[len(p.messages)-1].Cursor
	return func(ctx context.Context) error {
		now := time.Now()
		var notes errgroup.Group // side by side, so that they share a commit: the next request of the agent waits for them
		if newest != "" {        // a thread is no inbox, and has none
			notes.Go(fault.Func(func() error { return l.deps.Record.Show(ctx, agent.Handle, newest) }))
		}
		notes.Go(fault.Func(func() error { return l.deps.Record.HandOut(ctx, agent.Handle, events, now) }))
		for _, did := range agent.DIDs() {
			notes.Go(fault.Func(func() error { return l.deps.Record.Read(ctx, did, events, now) }))
		}
		err := notes.Wait()
		fault.Again(err)
		if err != nil {
			return fmt.Errorf("note what %s was shown: %w", agent.Handle, err)
		}
		return nil
	}
}

// list returns a page as JSON, with other members before its last.
func (l *Link) list(ctx context.Context, p page, members []byte) (raw, error) {
	var b bytes.Buffer
	b.WriteString(`{"messages":[`)
	for i, m := range p.messages {
		if i > 0 {
			b.WriteByte(',')
		}
		text, err := l.delivered(ctx, m)
		if err != nil {
			return nil, err
		}
		b.Write(text)
	}
	fmt.Fprintf(&b, `],%s"hasMore":%t}`, members, p.more)
	return b.Bytes(), nil
}

// delivered returns a message as its agent reads it: with its seq, which is unsigned, before the
// signed members.
func (l *Link) delivered(ctx context.Context, m agents.Message) ([]byte, error) {
	envelope, err := l.current(ctx, m)
	if err != nil {
		return nil, err
	}
	members := bytes.TrimPrefix(bytes.TrimSpace(envelope), []byte("{"))
	return append(fmt.Appendf(nil, `{"seq":%d,`, m.Seq), members...), nil
}

func pageSize(text string) (int, error) {
	if text == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, refuse(codeBadRequest, "limit is not a number above 0")
	}
	return min(n, maxPage), nil
}

// patience returns how long a client waits, in whole seconds as it is sent.
func (l *Link) patience(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, refuse(codeBadRequest, "wait is not a number of seconds")
	}
	return min(time.Duration(seconds)*time.Second, l.deps.HTTP.MaxWait), nil
}
