package client

import (
	"context"
	"net"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

// Attach lets a connection in that came by no port. The link must run.
func (l *Link) Attach(ctx context.Context, conn net.Conn) {
	s := l.live.Load()
	s.running.Go(func() { s.serve(ctx, conn, false) })
}

// MaxInputBytes is the reader's limit of one line.
const MaxInputBytes = maxInputBytes

// Parse is parse, with why as text.
func Parse(text string, err error) (ircmsg.Message, string) {
	m, why := parse(text, err)
	return m, string(why)
}

// Line writes a message with tags as a client that reads them is sent it.
func Line(tags map[string]string) []byte {
	return message{source: "a!b@c", command: "TAGMSG", params: []string{"#x"}, tags: tags}.line(capTags, "", time.Time{})
}
