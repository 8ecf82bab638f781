package client

import (
	"bufio"
	"errors"
	"net"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge/irc"
)

// maxInputBytes bounds one line of a client: the tags that it may send, and 512
// bytes of message, its end included.
//
// spec: ircv3 message-tags "Size limit"
const maxInputBytes = ircmsg.MaxlenTagsFromClient + maxBodyBytes

// maxBodyBytes bounds a message without its tags, with its end.
const maxBodyBytes = 512

// readBufferBytes is what a client that says nothing costs: longer lines are put
// together from pieces of it.
const readBufferBytes = 512

// writeTimeout bounds one write: a client that takes nothing for so long is dropped.
const writeTimeout = 30 * time.Second

// wire carries lines to and from one client. ReadLine is called by one goroutine,
// Write by another; Close may be called by any, and ends both.
type wire interface {
	// ReadLine returns one line without its end. It returns [irc.ErrLineTooLong] for
	// one of more than [maxInputBytes], after which the next can be read.
	ReadLine() (string, error)
	// Write sends whole lines.
	Write(lines []byte) error
	Close() error
}

// stream is the wire of a connection that carries lines as they are.
type stream struct {
	conn   net.Conn
	reader *bufio.Reader
}

func newStream(conn net.Conn) *stream {
	return &stream{conn: conn, reader: bufio.NewReaderSize(conn, readBufferBytes)}
}

// ReadLine implements [wire].
func (s *stream) ReadLine() (string, error) {
	line, err := irc.ReadLine(s.reader, maxInputBytes)
	return string(line), err
}

// Write implements [wire].
func (s *stream) Write(lines []byte) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.conn.Write(lines)
	return err
}

// Close implements [wire].
func (s *stream) Close() error { return s.conn.Close() }

// wrong is why a line could not be read. It is a label of a metric: the set is
// closed.
type wrong string

const (
	tooLong    wrong = "too_long"
	malformed  wrong = "malformed"
	notUTF8    wrong = "not_utf8"
	unreadable wrong = "unreadable_tags"
)

// parse reads one line of a client. The second result is "" for a line that can be
// acted on; an empty line is a message without a command.
func parse(text string, err error) (ircmsg.Message, wrong) {
	if errors.Is(err, irc.ErrLineTooLong) {
		return ircmsg.Message{}, tooLong
	}
	if text == "" {
		return ircmsg.Message{}, ""
	}
	if !validText(text) {
		return ircmsg.Message{}, notUTF8
	}
	m, err := ircmsg.ParseLineStrict(text, true, maxBodyBytes)
	switch {
	case err == nil:
		return m, ""
	case errors.Is(err, ircmsg.ErrorTagsTooLong), errors.Is(err, ircmsg.ErrorBodyTooLong):
		return m, tooLong
	case errors.Is(err, ircmsg.ErrorInvalidTagContent):
		return m, unreadable
	case errors.Is(err, ircmsg.ErrorLineIsEmpty):
		return ircmsg.Message{}, ""
	}
	return m, malformed
}
