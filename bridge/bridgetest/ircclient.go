package bridgetest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"github.com/ergochat/irc-go/ircreader"

	"github.com/baton-gateway/baton/bridge/irc"
)

// IRCMessage is one message received by an IRC peer.
type IRCMessage struct {
	Tags    map[string]string
	Source  string
	Nick    string // of the source
	Command string
	Params  []string
}

type messages struct {
	mu      sync.Mutex
	list    []*IRCMessage
	changed chan struct{} // closed and replaced at each change
	err     error         // reason why there are no more messages
}

// maxMessages bounds the unread messages; the oldest are dropped first.
const maxMessages = 10_000

func newMessages() *messages { return &messages{changed: make(chan struct{})} }

func (q *messages) add(m IRCMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list[max(0, len(q.list)+1-maxMessages):], &m)
	q.wake()
}

func (q *messages) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		q.wake()
	}
}

func (q *messages) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *messages) all() []IRCMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]IRCMessage, len(q.list))
	for i, m := range q.list {
		list[i] = *m
	}
	return list
}

// next waits for the oldest matching message and removes it. It calls match without the lock,
// because match may query a server that adds messages meanwhile.
func (q *messages) next(ctx context.Context, match func(IRCMessage) bool) (IRCMessage, error) {
	for {
		q.mu.Lock()
		list, changed, err := slices.Clone(q.list), q.changed, q.err
		q.mu.Unlock()
		i := slices.IndexFunc(list, func(m *IRCMessage) bool { return match(*m) })
		switch {
		case i >= 0 && q.take(list[i]):
			return *list[i], nil
		case i >= 0:
			continue // another reader took it
		case err != nil:
			return IRCMessage{}, fmt.Errorf("wait for a message: %w", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return IRCMessage{}, fmt.Errorf("wait for a message: %w", context.Cause(ctx))
		}
	}
}

func (q *messages) take(m *IRCMessage) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.list, m)
	if i >= 0 {
		q.list = slices.Delete(q.list, i, i+1)
	}
	return i >= 0
}

// IRCClient is a small IRC client. Its methods may be called concurrently.
type IRCClient struct {
	Nick     string
	conn     net.Conn
	received *messages
	writing  sync.Mutex
	mute     atomic.Bool
	running  sync.WaitGroup
}

// The longest line for a client has 8,191 bytes of tags and 512 bytes of message.
const (
	clientLineBytes    = 512
	maxClientLineBytes = 8192 + 1024
)

func connectIRC(ctx context.Context, addr, nick string) (*IRCClient, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial IRC server: %w", err)
	}
	c := &IRCClient{Nick: nick, conn: irc.QuickAck(conn), received: newMessages()}
	c.running.Go(c.read)
	return c, nil
}

// DialIRC connects a client to a server and registers it. The server must have all the
// capabilities.
func DialIRC(ctx context.Context, addr, nick string, caps ...string) (*IRCClient, error) {
	c, err := connectIRC(ctx, addr, nick)
	if err != nil {
		return nil, err
	}
	if err := c.register(ctx, caps); err != nil {
		c.Close()
		return nil, fmt.Errorf("register %s: %w", nick, err)
	}
	return c, nil
}

// LogInIRC is [DialIRC] for a client that proves a DID. The function prove returns the answer to a
// challenge; both have the form of AUTHENTICATE.
func LogInIRC(ctx context.Context, addr, nick string, prove func(challenge string) (string, error), caps ...string) (*IRCClient, error) {
	c, err := connectIRC(ctx, addr, nick)
	if err != nil {
		return nil, err
	}
	return c.logIn(ctx, prove, caps)
}

// LogInMutedIRC is [LogInIRC] for a client that is muted from the start; see [IRCClient.Mute].
func LogInMutedIRC(ctx context.Context, addr, nick string, prove func(challenge string) (string, error), caps ...string) (*IRCClient, error) {
	c, err := connectIRC(ctx, addr, nick)
	if err != nil {
		return nil, err
	}
	c.Mute()
	return c.logIn(ctx, prove, caps)
}

func (c *IRCClient) logIn(ctx context.Context, prove func(challenge string) (string, error), caps []string) (*IRCClient, error) {
	err := c.authenticate(ctx, prove)
	if err == nil {
		err = c.register(ctx, caps)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("log in %s: %w", c.Nick, err)
	}
	return c, nil
}

func (c *IRCClient) authenticate(ctx context.Context, prove func(challenge string) (string, error)) error {
	if err := c.Send(nil, "AUTHENTICATE", "ATPROTO-CHALLENGE"); err != nil {
		return err
	}
	challenge, err := c.Next(ctx, func(m IRCMessage) bool { return m.Command == "AUTHENTICATE" })
	if err != nil {
		return err
	}
	answer, err := prove(challenge.Params[0])
	if err != nil {
		return err
	}
	if err := c.Send(nil, "AUTHENTICATE", answer); err != nil {
		return err
	}
	m, err := c.Next(ctx, func(m IRCMessage) bool { return m.Command == "903" || m.Command == "904" })
	if err == nil && m.Command == "904" {
		err = fmt.Errorf("refused: %q", m.Params)
	}
	return err
}

func (c *IRCClient) register(ctx context.Context, caps []string) error {
	if len(caps) > 0 {
		if err := c.Send(nil, "CAP", "REQ", strings.Join(caps, " ")); err != nil {
			return err
		}
	}
	if err := c.Send(nil, "NICK", c.Nick); err != nil {
		return err
	}
	if err := c.Send(nil, "USER", c.Nick, "0", "*", "real "+c.Nick); err != nil {
		return err
	}
	if len(caps) > 0 {
		m, err := c.Next(ctx, func(m IRCMessage) bool { return m.Command == "CAP" })
		if err != nil {
			return err
		}
		if len(m.Params) < 2 || m.Params[1] != "ACK" {
			return fmt.Errorf("the server has not all of %q: %q", caps, m.Params)
		}
		if err := c.Send(nil, "CAP", "END"); err != nil {
			return err
		}
	}
	_, err := c.Next(ctx, func(m IRCMessage) bool { return m.Command == "001" })
	return err
}

// Join joins the client to a channel.
func (c *IRCClient) Join(ctx context.Context, channel string) error {
	if err := c.Send(nil, "JOIN", channel); err != nil {
		return err
	}
	_, err := c.Next(ctx, func(m IRCMessage) bool { return m.Command == "JOIN" && m.Nick == c.Nick })
	return err
}

// Send writes one message.
func (c *IRCClient) Send(tags map[string]string, command string, params ...string) error {
	m := ircmsg.MakeMessage(tags, "", command, params...)
	line, err := m.LineBytesStrict(true, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", command, err)
	}
	return c.SendRaw(line)
}

// SendRaw writes bytes unchanged.
func (c *IRCClient) SendRaw(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		return fmt.Errorf("write to IRC server: %w", err)
	}
	if _, err := c.conn.Write(line); err != nil {
		return fmt.Errorf("write to IRC server: %w", err)
	}
	return nil
}

// Mute stops the answers to PINGs. The client stores later PINGs as messages.
func (c *IRCClient) Mute() { c.mute.Store(true) }

// Next waits for a matching message and removes it.
func (c *IRCClient) Next(ctx context.Context, match func(IRCMessage) bool) (IRCMessage, error) {
	return c.received.next(ctx, match)
}

// Received returns all messages not removed by [IRCClient.Next], in order.
func (c *IRCClient) Received() []IRCMessage { return c.received.all() }

// Close ends the connection without a QUIT.
func (c *IRCClient) Close() {
	_ = c.conn.Close()
	c.running.Wait()
}

func (c *IRCClient) read() {
	var reader ircreader.Reader
	reader.Initialize(c.conn, clientLineBytes, maxClientLineBytes)
	for {
		text, err := reader.ReadLine()
		if err != nil {
			c.received.end(err)
			return
		}
		m, err := ircmsg.ParseLine(string(text))
		switch {
		case err != nil:
		case m.Command == "PING" && !c.mute.Load():
			_ = c.Send(nil, "PONG", m.Params...) // an error ends the reader too
		default:
			c.received.add(IRCMessage{Tags: m.AllTags(), Source: m.Source, Nick: m.Nick(), Command: m.Command, Params: m.Params})
		}
	}
}
