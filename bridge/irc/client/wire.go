package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
)

// A line has its tags, and 512 bytes of message including the line ending.
//
// spec: ircv3 message-tags "Size limit"
const maxInputBytes = ircmsg.MaxlenTagsFromClient + maxBodyBytes

// maxBodyBytes bounds a message without its tags, including the line ending.
const maxBodyBytes = 512

// A silent client uses this much memory.
const readBufferBytes = 512

// A client that reads nothing for this long is dropped.
const writeTimeout = 30 * time.Second

// One goroutine calls ReadLine and another calls Write. Any goroutine may call Close, which ends
// both.
type wire interface {
	// ReadLine returns [irc.ErrLineTooLong] for a line of more than [maxInputBytes]; the next line
	// can still be read.
	ReadLine() (string, error)
	// Write sends whole lines.
	Write(lines []byte) error
	Close() error
}

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

func (s *stream) Write(lines []byte) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.conn.Write(lines)
	return err
}

// Close implements [wire].
func (s *stream) Close() error { return s.conn.Close() }

// A wrong is a metric label from a closed set.
type wrong string

const (
	tooLong    wrong = "too_long"
	malformed  wrong = "malformed"
	notUTF8    wrong = "not_utf8"
	unreadable wrong = "unreadable_tags"
)

// The second result of parse is "" for a valid line. An empty line is a message without a command.
func parse(text string, err error) (ircmsg.Message, wrong) {
	if errors.Is(err, irc.ErrLineTooLong) {
		return ircmsg.Message{}, tooLong
	}
	if text == "" {
		return ircmsg.Message{}, ""
	}
	if !validText(text) {
		m := ircmsg.Message{}
		if tags, _, _ := strings.Cut(text, " "); validText(tags) { // the answer has the label
			m, _ = ircmsg.ParseLineStrict(text, true, maxBodyBytes)
		}
		return m, notUTF8
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

// Each message is one line without its line ending, as text or as bytes.
//
// spec: ircv3 websocket
const (
	textProtocol   = "text.ircv3.net"
	binaryProtocol = "binary.ircv3.net"
)

// Pattern implements [bridge.Served].
func (*Link) Pattern() string { return "GET " + Path }

// ServeHTTP serves one IRC client over WebSocket, until it disconnects. It answers 404 if the
// configuration disables it, and 503 while the listener does not run.
//
// A page may connect from any origin that may read answers of the gateway's HTTP listener. Browsers
// add no credential by themselves that this server accepts.
func (l *Link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := l.live.Load()
	switch {
	case !l.cfg.WebSocket:
		http.NotFound(w, r)
		return
	case s == nil || !s.post(func() { s.running.Add(1) }): // the owner waits for it at its end
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not listening", http.StatusServiceUnavailable)
		return
	}
	defer s.running.Done()
	ctx, hangUp := context.WithCancel(r.Context())
	defer hangUp()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: subprotocols(r), OriginPatterns: l.deps.HTTP.Origins,
	})
	if err != nil {
		return // already answered
	}
	defer func() { _ = conn.CloseNow() }()
	from := bridge.SubnetOf(r.RemoteAddr)
	u := newUser(hostPart(r.RemoteAddr), from)
	u.secure = r.TLS != nil || strings.HasPrefix(l.ports.PublicURL, "https:")
	u.wire = newSocket(conn, r.WithContext(ctx), hangUp)
	if why := s.letIn(ctx, u); why != "" {
		s.turnAway(ctx, u, why)
		return
	}
	s.read(bridge.WithSubnet(ctx, from), u)
}

// The order is the client's order of preference.
//
// spec: RFC 6455 §4.1
func subprotocols(r *http.Request) []string {
	var both []string
	for name := range strings.SplitSeq(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), ",") {
		if name = strings.TrimSpace(name); name == textProtocol || name == binaryProtocol {
			both = append(both, name)
		}
	}
	return both
}

type socket struct {
	conn    *websocket.Conn
	request *http.Request // its context ends with the connection
	hangUp  context.CancelFunc
	kind    websocket.MessageType
}

func newSocket(conn *websocket.Conn, r *http.Request, hangUp context.CancelFunc) *socket {
	conn.SetReadLimit(-1) // ReadLine has its own limit, which keeps the connection open
	s := &socket{conn: conn, request: r, hangUp: hangUp, kind: websocket.MessageText}
	if conn.Subprotocol() == binaryProtocol {
		s.kind = websocket.MessageBinary
	}
	return s
}

// ReadLine implements [wire]. It does not distinguish text from bytes.
func (s *socket) ReadLine() (string, error) {
	_, message, err := s.conn.Reader(s.request.Context())
	if err != nil {
		return "", fmt.Errorf("read from WebSocket: %w", err)
	}
	line, err := io.ReadAll(io.LimitReader(message, maxInputBytes+1))
	if err == nil && len(line) > maxInputBytes {
		_, err = io.Copy(io.Discard, message)
		if err == nil {
			err = irc.ErrLineTooLong
		}
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), err
}

func (s *socket) Write(lines []byte) error {
	ctx, cancel := context.WithTimeout(s.request.Context(), writeTimeout)
	defer cancel()
	for line := range bytes.SplitSeq(lines, []byte("\r\n")) {
		if len(line) == 0 {
			continue
		}
		if err := s.conn.Write(ctx, s.kind, line); err != nil {
			return fmt.Errorf("write to WebSocket: %w", err)
		}
	}
	return nil
}

// Close ends pending reads and writes; the reader closes the connection.
func (s *socket) Close() error {
	s.hangUp()
	return nil
}
