package irc

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/bridge/irc"
)

// maxLineBytes is longer than any line of a server, 8,191 bytes of tags and 512 bytes of message,
// to detect a line that is too long.
const maxLineBytes = 16 << 10

type wire struct {
	read  func(ctx context.Context) (string, error)
	write func(ctx context.Context, line string) error
	close func() error // ends both
}

type dial func(ctx context.Context) (*wire, error)

func dialler(address string) (dial, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not a URL of an IRC server", address)
	}
	switch u.Scheme {
	case "irc":
		return func(ctx context.Context) (*wire, error) {
			return stream((&net.Dialer{}).DialContext(ctx, "tcp", u.Host))
		}, nil
	case "ircs":
		return func(ctx context.Context) (*wire, error) {
			return stream((&tls.Dialer{}).DialContext(ctx, "tcp", u.Host))
		}, nil
	case "ws", "wss":
		return func(ctx context.Context) (*wire, error) { return page(ctx, address) }, nil
	}
	return nil, errors.New("want irc://HOST:PORT, ircs://, ws:// or wss://, not " + address)
}

func stream(conn net.Conn, err error) (*wire, error) {
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	return &wire{
		read: func(ctx context.Context) (string, error) {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			line, err := irc.ReadLine(reader, maxLineBytes)
			return string(line), err
		},
		write: func(_ context.Context, line string) error {
			_, err := conn.Write([]byte(line + "\r\n"))
			return err
		},
		close: conn.Close,
	}, nil
}

func page(ctx context.Context, address string) (*wire, error) {
	conn, response, err := websocket.Dial(ctx, address, &websocket.DialOptions{Subprotocols: []string{"text.ircv3.net"}})
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxLineBytes)
	return &wire{
		read: func(ctx context.Context) (string, error) {
			_, text, err := conn.Read(ctx)
			return strings.TrimRight(string(text), "\r\n"), err
		},
		write: func(ctx context.Context, line string) error {
			return conn.Write(ctx, websocket.MessageText, []byte(line))
		},
		close: conn.CloseNow,
	}, nil
}
