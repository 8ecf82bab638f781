package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation/fault"
)

// Options are the options of [Serve].
type Options struct {
	Device  string // of the inbox; "" for "mcp"
	Version string // of the program
	// Channel wakes the client at each arrival, on hosts with channels.
	Channel bool
}

// channelCapability is the experimental capability of servers that wake their client.
const channelCapability = "claude/channel"

const channelMethod = "notifications/claude/channel"

// Serve serves one participant, one message per line. It blocks until in or ctx ends, and then returns nil.
func Serve(ctx context.Context, account Account, o Options, in io.ReadCloser, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{
		account: account, device: o.Device, version: o.Version, tools: tools(), ended: []<-chan struct{}{ctx.Done()},
		still: func(time.Time) error { return nil }, onToolError: func(context.Context, string, error) {}, legacySubscriptions: true,
	}
	var transport mcp.Transport = &mcp.IOTransport{Reader: in, Writer: open{out}}
	if o.Channel {
		s.experimental = map[string]any{channelCapability: map[string]any{}}
		waker := &waker{Transport: transport, greeted: make(chan struct{})}
		transport = waker
		var over fault.Group
		over.Go(func() { s.wake(ctx, waker) })
		defer over.Wait()
		defer cancel()
	}
	s.open()
	err := s.mcp.Run(ctx, transport)
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

type open struct{ io.Writer }

// Close implements [io.Closer].
func (open) Close() error { return nil }

// waker can send its own notifications after the response to initialize.
type waker struct {
	mcp.Transport

	once    sync.Once
	greeted chan struct{} // closed after that response
	conn    mcp.Connection
}

// Connect implements [mcp.Transport].
func (w *waker) Connect(ctx context.Context) (mcp.Connection, error) { //nolint:ireturn // the SDK requires an interface
	conn, err := w.Transport.Connect(ctx)
	w.conn = conn
	return &greeting{Connection: conn, waker: w}, err
}

// Only one goroutine may call Read.
type greeting struct {
	mcp.Connection

	waker *waker
	mu    sync.Mutex
	id    jsonrpc.ID // of the initialize request
}

// Read implements [mcp.Connection].
func (g *greeting) Read(ctx context.Context) (jsonrpc.Message, error) { //nolint:ireturn // the SDK requires an interface
	m, err := g.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "initialize" {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.id = r.ID
	}
	return m, err
}

// Write implements [mcp.Connection].
func (g *greeting) Write(ctx context.Context, m jsonrpc.Message) error {
	err := g.Connection.Write(ctx, m)
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := m.(*jsonrpc.Response); ok && err == nil && g.id.IsValid() && r.ID == g.id && r.Error == nil {
		g.waker.once.Do(func() { close(g.waker.greeted) })
	}
	return err
}

type arrival struct {
	Content string            `json:"content"`
	Meta    map[string]string `json:"meta"`
}

// wake notifies of each unacknowledged and each new inbox entry. It blocks until ctx ends.
func (s *server) wake(ctx context.Context, w *waker) {
	select {
	case <-w.greeted:
	case <-ctx.Done():
		return
	}
	q := participant.InboxQuery{Device: s.deviceName(), Limit: watchLimit, Wait: watchTime}
	for ctx.Err() == nil {
		page, err := s.account.Inbox(ctx, q)
		if err != nil {
			bridge.Sleep(ctx, watchTime)
			continue
		}
		for _, n := range page.Items {
			if n.Waits && notify(ctx, w.conn, n) != nil {
				return // the client is gone
			}
		}
		q.Cursor = page.Next
	}
}

func notify(ctx context.Context, conn mcp.Connection, n participant.Named) error {
	e := shapeEntry(n)
	params, err := json.Marshal(arrival{e.text(), map[string]string{
		"event_id": e.Step.EventID, "handoff_id": e.Step.HandoffID, "verb": e.Step.Verb, "from": e.Step.From, "cursor": e.Cursor,
	}})
	if err != nil {
		return fmt.Errorf("write notification: %w", err)
	}
	return conn.Write(ctx, &jsonrpc.Request{Method: channelMethod, Params: params})
}
