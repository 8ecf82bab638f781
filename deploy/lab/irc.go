package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"github.com/ergochat/irc-go/ircreader"
	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/deploy/agent"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/handofftag"
)

// Signed text has the channel in lower case.
const channel = "#lab"

const repeatTime = 3 * time.Second

// The limits of an IRC line: 8,191 bytes of tags and 512 bytes of message.
const (
	lineBytes    = 1024
	maxLineBytes = 9216
)

// ircOfferer makes signed offers in a channel of an IRC server. It proves the same key over REST,
// so that the audit can read its handoffs and its inbox at its home.
type ircOfferer struct {
	*agent.Agent

	nick, address string

	mu      sync.Mutex
	conn    net.Conn               // nil while away from the channel
	answers map[string]chan string // channel lines about a handoff
}

func (o *ircOfferer) name() string                              { return o.nick }
func (o *ircOfferer) inbox(ctx context.Context) ([]step, error) { return inboxOf(ctx, o.Agent) }

// join starts to keep the agent in the channel.
func (o *ircOfferer) join(ctx context.Context) error {
	if err := o.Hello(ctx); err != nil {
		return err
	}
	go o.reconnect(context.WithoutCancel(ctx))
	for {
		o.mu.Lock()
		there := o.conn != nil
		o.mu.Unlock()
		if there {
			return nil
		}
		if err := wait(ctx, agent.RetryWait); err != nil {
			return fmt.Errorf("join %s: %w", channel, err)
		}
	}
}

func (o *ircOfferer) reconnect(ctx context.Context) {
	for {
		_ = o.attend(ctx) // the next connection replaces this one
		if err := wait(ctx, time.Second); err != nil {
			return
		}
	}
}

func (o *ircOfferer) attend(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", o.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "CAP REQ message-tags\r\nNICK %s\r\nUSER %s 0 * :lab\r\nCAP END\r\n", o.nick, o.nick); err != nil {
		return err
	}
	defer o.leave()
	var reader ircreader.Reader
	reader.Initialize(conn, lineBytes, maxLineBytes)
	for {
		line, err := reader.ReadLine()
		if err != nil {
			return err
		}
		m, err := ircmsg.ParseLineStrict(string(line), true, 0)
		if err != nil {
			return err
		}
		switch m.Command {
		case "PING":
			_, err = fmt.Fprintf(conn, "PONG :%s\r\n", m.Params[len(m.Params)-1])
		case "001":
			_, err = fmt.Fprintf(conn, "JOIN %s\r\n", channel)
		case "366":
			o.mu.Lock()
			o.conn = conn
			o.mu.Unlock()
		case "433", "ERROR":
			return errors.New(m.Command)
		case "NOTICE":
			o.onNotice(m.Params[len(m.Params)-1])
		}
		if err != nil {
			return err
		}
	}
}

func (o *ircOfferer) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn = nil
}

// A refusal has the offer's ID, and other lines have the end of it.
func (o *ircOfferer) onNotice(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, answer := range o.answers {
		if strings.Contains(line, id) || strings.Contains(line, "…"+id[len(id)-6:]) {
			select {
			case answer <- line:
			default:
			}
		}
	}
}

// offer resends the same signed offer until the channel shows it or the home has it, because a line
// may be lost with a connection.
func (o *ircOfferer) offer(ctx context.Context, to federation.DID, title string) (string, error) {
	event := federation.EventID(ulid.Make())
	message, err := o.signed(ctx, event, to, title)
	if err != nil {
		return "", err
	}
	id := event.String()
	answer := make(chan string, 1)
	o.mu.Lock()
	o.answers[id] = answer
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.answers, id)
	}()
	for sent := false; ; {
		o.mu.Lock()
		conn := o.conn
		o.mu.Unlock()
		if conn != nil {
			_, err := conn.Write(message)
			sent = sent || err == nil // after an error, the next connection resends it
		}
		select {
		case line := <-answer:
			if strings.Contains(line, id) {
				return "", errors.New(line)
			}
			return id, nil
		case <-time.After(repeatTime):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if sent {
			var filed agent.Handoff
			if err := o.Call(ctx, "handoffs/"+id, "", nil, &filed); err == nil {
				return id, nil
			}
		}
	}
}

func (o *ircOfferer) signed(ctx context.Context, id federation.EventID, to federation.DID, title string) ([]byte, error) {
	ev := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: o.DID, To: to, Title: title,
		Venue: channel, Dialect: federation.HandoffTags,
	}
	ev.Fields, _ = handofftag.Write(ev) // no part is too long
	ev, err := signing.Seal(ctx, o.SigningKey(), ev)
	if err != nil {
		return nil, err
	}
	m := ircmsg.MakeMessage(translate.Wire(ev, nil), "", "TAGMSG", channel)
	return m.LineBytes()
}
