package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"github.com/ergochat/irc-go/ircreader"
)

type client struct {
	conn   net.Conn
	reader ircreader.Reader
}

// The limits of a received line: 8,191 bytes of tags and 512 bytes of message.
const (
	lineBytes    = 1024
	maxLineBytes = 9216
)

const titleTag = "+freeq.at/handoff-task"

const joinTime = 5 * time.Second

func dial(ctx context.Context, addr, nick, capabilities string) (*client, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn}
	c.reader.Initialize(conn, lineBytes, maxLineBytes)
	if err := c.join(nick, capabilities); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *client) join(nick, capabilities string) error {
	if err := c.conn.SetDeadline(time.Now().Add(joinTime)); err != nil {
		return err
	}
	if err := c.write("CAP REQ :" + capabilities + "\r\nNICK " + nick + "\r\nUSER " + nick + " 0 * :" + nick + "\r\nCAP END\r\n"); err != nil {
		return err
	}
	for {
		m, err := c.next()
		switch {
		case err != nil:
			return err
		case m.Command == "001":
			err = c.write("JOIN " + channel + "\r\n")
		case m.Command == "366":
			return c.conn.SetDeadline(time.Time{})
		case m.Command == "433" || m.Command == "ERROR":
			return fmt.Errorf("the server answers %s %q", m.Command, m.Params)
		}
		if err != nil {
			return err
		}
	}
}

func (c *client) write(lines string) error {
	_, err := c.conn.Write([]byte(lines))
	return err
}

func (c *client) next() (ircmsg.Message, error) {
	line, err := c.reader.ReadLine()
	if err != nil {
		return ircmsg.Message{}, err
	}
	m, err := ircmsg.ParseLineStrict(string(line), true, 0)
	if err != nil {
		return ircmsg.Message{}, fmt.Errorf("read %q: %w", line, err)
	}
	if m.Command == "PING" {
		return m, c.write("PONG :" + m.Params[len(m.Params)-1] + "\r\n")
	}
	return m, nil
}

type arrival struct {
	kind   string
	number int
	msgid  string
	at     time.Time
}

// numbered matches the end of a sender's text. A bridge may prefix a name.
var numbered = regexp.MustCompile(`\bnumber (\d+)$`)

func arrivalOf(m ircmsg.Message) (a arrival, ok bool) {
	said := ""
	switch m.Command {
	case "PRIVMSG":
		a.kind, said = text, m.Params[len(m.Params)-1]
	case "TAGMSG":
		a.kind = offers
		_, said = m.GetTag(titleTag)
	}
	a.number, ok = numberIn(said)
	_, a.msgid = m.GetTag("msgid")
	a.at = time.Now()
	return a, ok
}

func numberIn(said string) (number int, ok bool) {
	match := numbered.FindStringSubmatch(said)
	if match == nil {
		return 0, false
	}
	number, err := strconv.Atoi(match[1])
	return number, err == nil
}

func (c *client) read(got func(ircmsg.Message)) error {
	for {
		m, err := c.next()
		if err != nil {
			return err
		}
		got(m)
	}
}
