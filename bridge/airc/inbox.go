package airc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/fault"
)

const (
	defaultPage = 50
	maxPage     = 100
)

// A wake-up may be lost, so waiting requests poll.
const recheck = time.Second

type page struct {
	messages []agents.Message
	more     bool
}

// getInbox marks returned messages as no longer waiting.
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
		if err := l.stillIn(c); wait > 0 && err != nil { // the end of the session also wakes the request
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

func (l *Link) await(ctx context.Context, handle string, wait time.Duration, read func() (page, error)) (page, error) {
	if wait == 0 {
		return read()
	}
	wake, stop := l.deps.PubSub.Subscribe(bridge.InboxTopic(handle)) // before the first read, so that no wake-up is missed
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

// shown marks messages as fetched by their agent, and their steps as read by each of its DIDs.
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
		var notes errgroup.Group // concurrent, to share a commit
		if newest != "" {        // a thread is not an inbox and has no cursor
			notes.Go(fault.Func(func() error { return l.deps.Record.Show(ctx, agent.Handle, newest) }))
		}
		notes.Go(fault.Func(func() error { return l.deps.Record.HandOut(ctx, agent.Handle, events, now) }))
		for _, did := range agent.DIDs() {
			notes.Go(fault.Func(func() error { return l.deps.Record.Read(ctx, did, events, now) }))
		}
		err := notes.Wait()
		fault.Again(err)
		if err != nil {
			return fmt.Errorf("mark messages shown to %s: %w", agent.Handle, err)
		}
		return nil
	}
}

// list inserts members before the last member of the page.
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

// delivered writes the unsigned seq before the signed members.
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
		return 0, wire.Refuse(wire.CodeBadRequest, "limit is not a number above 0")
	}
	return min(n, maxPage), nil
}

// patience parses whole seconds.
func (l *Link) patience(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, wire.Refuse(wire.CodeBadRequest, "wait is not a number of seconds")
	}
	return min(time.Duration(seconds)*time.Second, l.deps.HTTP.MaxWait), nil
}

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
			return answer{}, wire.Refuse(wire.CodeBadRequest, "after_seq is not a seq")
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

// correspondent accepts roles, which have threads too.
func (l *Link) correspondent(ctx context.Context, handle string) (string, error) {
	if handle == systemHandle || handle == anyoneHandle {
		return handle, nil
	}
	who, err := known(l.find(ctx, handle))
	return who.handle, err
}

// spec: airc-v0.1.1 §7.4
func (l *Link) postAck(c *call) (answer, error) {
	return l.settle(c, "read", func(ctx context.Context, handle, id string) error {
		return l.deps.Record.MarkRead(ctx, handle, id, time.Now())
	})
}

// spec: airc-v0.1.1 §7.4
func (l *Link) deleteMessage(c *call) (answer, error) {
	return l.settle(c, "deleted", l.deps.Record.Delete)
}

func (l *Link) settle(c *call, status string, change func(ctx context.Context, handle, id string) error) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	id := c.PathValue("id")
	err = change(c.Context(), agent.Handle, id)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, wire.Refuse(wire.CodeNotFound, "you have no message with this id")
	case err != nil:
		return answer{}, fmt.Errorf("note message %s: %w", status, err)
	}
	return answer{status: http.StatusOK, body: struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}{id, status}}, nil
}

// A grant is a part of the free quota. Without grants, each message would count all waiting messages of
// the agent again.
const (
	grantedPart = 8               // divisor: concurrent messages of other senders exceed the limit by at most this part
	grantedFor  = 5 * time.Second // then limits and inbox are checked again
)

// A grant takes about 150 bytes.
const maxGrants = 1 << 14

type grant struct {
	federation.Remaining

	until time.Time
}

// pair is a recipient and a sender; the sender "" means all senders.
type pair struct{ to, from string }

// grants holds the inboxes with known free quota. The goroutine that receives the map owns it until it
// sends it back.
type grants struct{ left chan map[pair]grant }

func newGrants() grants {
	g := grants{left: make(chan map[pair]grant, 1)}
	g.left <- map[pair]grant{}
	return g
}

// use reports whether the grants of the recipient and of the sender had enough.
func (g grants) use(to, from string, size int64, now time.Time) bool {
	left := <-g.left
	defer func() { g.left <- left }()
	all, own := left[pair{to, ""}], left[pair{to, from}]
	for _, on := range []grant{all, own} {
		if now.After(on.until) || !on.Admits(size) {
			return false
		}
	}
	for who, on := range map[pair]grant{{to, ""}: all, {to, from}: own} {
		on.Entries, on.Bytes = on.Entries-1, on.Bytes-size
		left[who] = on
	}
	return true
}

func (g grants) give(to, from string, whole, share federation.Remaining, now time.Time) {
	left := <-g.left
	defer func() { g.left <- left }()
	if len(left) >= maxGrants {
		clear(left)
	}
	for who, free := range map[pair]federation.Remaining{{to, ""}: whole, {to, from}: share} {
		left[who] = grant{federation.Remaining{Entries: free.Entries / grantedPart, Bytes: free.Bytes / grantedPart}, now.Add(grantedFor)}
	}
}

// checkRoom counts held messages, unfetched messages and steps.
//
// spec: airc-v0.1.1 §11.5
func (l *Link) checkRoom(ctx context.Context, d *inbound) error {
	limits, to, length := l.deps.Quotas().Room, d.recipient.handle, int64(len(d.raw))
	if limits == (federation.InboxLimits{}) || l.grants.use(to, d.from, length, d.received) {
		return nil
	}
	messages, err := l.deps.Record.Unshown(ctx, to, d.from)
	if err != nil {
		return fmt.Errorf("count messages: %w", err)
	}
	steps, err := l.deps.Record.Use(ctx, d.recipient.agent.DID, d.sender.DID)
	if err != nil {
		return fmt.Errorf("count steps: %w", err)
	}
	whole, share := limits.Remaining(messages.Plus(steps))
	switch {
	case !whole.Admits(length):
		return wire.Refuse(wire.CodeOverCapacity, "the inbox of this agent is full")
	case !share.Admits(length):
		return wire.Refuse(wire.CodeOverCapacity, "your share of this agent's inbox is full")
	}
	l.grants.give(to, d.from, whole.Less(length), share.Less(length), d.received)
	return nil
}
