package bench

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

type ircClient struct {
	*reader

	conn net.Conn
	key  federation.SigningKey
}

func dialIRC(ctx context.Context, address, nick string) (_ *ircClient, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &ircClient{conn: conn, reader: read(conn, conn.Close, conn), key: newKey()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("log %s in on IRC: %w", nick, err), c.Close())
		}
	}()
	challenge, err := c.ask("AUTHENTICATE ATPROTO-CHALLENGE\r\n", "AUTHENTICATE ")
	if err != nil {
		return nil, err
	}
	proof, err := c.prove(ctx, challenge.text)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct{ say, until string }{
		{"AUTHENTICATE " + proof + "\r\n", " 903 "},
		{"CAP REQ message-tags\r\nNICK " + nick + "\r\nUSER " + nick + " 0 * :" + nick + "\r\nCAP END\r\n", " 001 "},
		{"JOIN " + channel + "\r\n", " 366 "},
	} {
		if _, err := c.ask(step.say, step.until); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *ircClient) prove(ctx context.Context, line string) (string, error) {
	words := strings.Fields(line)
	document, err := base64.RawURLEncoding.DecodeString(words[len(words)-1])
	if err != nil {
		return "", fmt.Errorf("read challenge: %w", err)
	}
	signature, err := c.key.Sign(ctx, document)
	if err != nil {
		return "", err
	}
	answer, err := json.Marshal(map[string]string{"did": string(c.key.DID), "signature": base64.RawURLEncoding.EncodeToString(signature)})
	return base64.RawURLEncoding.EncodeToString(answer), err
}

func (c *ircClient) ask(line, until string) (timed, error) {
	if err := c.say(line); err != nil {
		return timed{}, err
	}
	return c.await(until)
}

func (c *ircClient) say(line string) error {
	_, err := c.conn.Write([]byte(line))
	return err
}

type spoken struct{ id, line string }

func (c *ircClient) offer(ctx context.Context, to federation.DID) (spoken, error) {
	ev, err := newOffer(ctx, c.key, to, channel)
	if err != nil {
		return spoken{}, err
	}
	m := ircmsg.MakeMessage(translate.Wire(ev, nil), "", "TAGMSG", channel)
	line, err := m.Line()
	return spoken{ev.ID.String(), line}, err
}
