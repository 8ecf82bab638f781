package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"baton/bridge"
	"baton/bridge/irc"
)

// The subprotocols: each message is one line without its end, as text or as bytes.
//
// spec: ircv3 websocket
const (
	textProtocol   = "text.ircv3.net"
	binaryProtocol = "binary.ircv3.net"
)

// Pattern implements [bridge.Served].
func (*Link) Pattern() string { return "GET " + Path }

// ServeHTTP serves one IRC client over WebSocket, until it is gone. It answers 404 where the
// configuration disables it, and 503 while the listener does not run.
//
// A page may connect from any origin that the gateway's HTTP listener lets read answers:
// browsers add no credential by themselves that this server accepts.
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
		return // it was answered
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

// subprotocols returns the subprotocols that a client and this server speak, in the order of
// the client.
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

// socket is the wire of a connection that carries each line as a message.
type socket struct {
	conn    *websocket.Conn
	request *http.Request // whose context ends with the connection
	hangUp  context.CancelFunc
	kind    websocket.MessageType // of what is sent
}

func newSocket(conn *websocket.Conn, r *http.Request, hangUp context.CancelFunc) *socket {
	conn.SetReadLimit(-1) // ReadLine has its own, which does not end the connection
	s := &socket{conn: conn, request: r, hangUp: hangUp, kind: websocket.MessageText}
	if conn.Subprotocol() == binaryProtocol {
		s.kind = websocket.MessageBinary
	}
	return s
}

// ReadLine implements [wire]. Text and bytes are read alike.
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

// Write implements [wire].
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

// Close implements [wire]: whatever is read or written ends, and its reader closes the
// connection.
func (s *socket) Close() error {
	s.hangUp()
	return nil
}
