package spanningtree

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

// Sizes of the protocol.
const (
	sidBytes  = 3 // of a server id, as in "1AA"
	uuidBytes = 9 // of a user id: that of its server and six more
)

// maxLineBytes bounds one line from the peer. Servers set no limit among each
// other; a whole tag section is 8 KiB, and a megabyte is more than any sends.
const maxLineBytes = 1 << 20

// writeTimeout bounds one write: a peer that takes nothing for so long is as
// good as gone.
const writeTimeout = 30 * time.Second

// lastWords is how long what the peer said last is still read after a write
// failed: it may say why.
const lastWords = time.Second

// line is what the reader read: a text, or that it was too long.
type line struct {
	text string
	err  error // nil or [irc.ErrLineTooLong]
}

// parse reads a line. The reason is that why it cannot be read, or "". A line
// with unreadable tags is returned without them.
func parse(l line) (ircmsg.Message, reason) {
	if l.err != nil {
		return ircmsg.Message{}, tooLong
	}
	if l.text == "" {
		return ircmsg.Message{}, "" // a line of no command
	}
	m, err := ircmsg.ParseLine(l.text)
	if err == nil {
		return m, ""
	}
	if errors.Is(err, ircmsg.ErrorInvalidTagContent) {
		_, rest, _ := strings.Cut(l.text, " ")
		if m, err = ircmsg.ParseLine(rest); err == nil {
			return m, unreadable
		}
	}
	return ircmsg.Message{}, malformed
}

// writePiece writes one piece. Where that fails the reader ends soon after.
func (s *session) writePiece(piece []byte) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.conn.Write(piece)
	if err != nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(lastWords))
	}
	return err
}

// put adds a line to what is to be written. Its arguments are sanitised: none
// holds a space or the end of a line, but for a last one after a colon.
func (s *session) put(format string, args ...any) {
	s.buffer = append(fmt.Appendf(s.buffer, format, args...), "\r\n"...)
}

// putMessage adds a message with tags. Its error is that of a tag or parameter
// that no line can hold.
func (s *session) putMessage(m ircmsg.Message) error {
	text, err := m.LineBytesStrict(false, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", m.Command, err)
	}
	s.buffer = append(s.buffer, text...)
	return nil
}

// flush gives the writer all that was put, as one piece, unless it is still busy
// with the last. Rows among it are followed by the PING that proves them.
func (s *session) flush() {
	if s.Writing() || len(s.buffer) == 0 {
		return
	}
	if len(s.unproven) > 0 {
		s.ping(s.unproven)
		s.unproven = nil
	}
	s.Send(s.buffer)
	s.buffer = nil
}

// ping sends a PING that proves rows, or none and only that the peer lives. The
// protocol has no cookie: answers come in the order of the questions.
func (s *session) ping(rows []*row) {
	s.put(":%s PING %s", s.sid(), s.net.peer)
	s.pings = append(s.pings, rows)
}

// lost describes the end of a connection.
func (s *session) lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("closed by the other server")
	}
	return fmt.Errorf("connection to %s lost: %w", s.link.cfg.ServerName, errors.Join(err, s.WriteErr()))
}

// lastWord writes a line before the connection is closed, as far as the peer takes
// it.
func (s *session) lastWord(text string) {
	s.put("%s", text)
	timeout := time.NewTimer(leaveTimeout)
	defer timeout.Stop()
	for s.flush(); s.Writing(); s.flush() {
		select {
		case err := <-s.Wrote:
			if err != nil {
				return
			}
			s.Written(nil)
		case <-timeout.C:
			return
		}
	}
}
