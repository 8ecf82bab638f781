package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation/fault"
)

const socketPath = Prefix + "inbox/socket"

// A request over the socket has a cursor and names.
const maxAskBytes = 4096

var errGatewayEnds = errors.New("the gateway ends")

// openInboxSocket returns only errors from before the upgrade.
func (l *Link) openInboxSocket(ctx context.Context, out http.ResponseWriter, req contract.Socket) error {
	did, err := person(ctx)
	if err != nil {
		return err
	}
	after, err := l.start(ctx, did, req.Cursor, req.Device)
	if err != nil {
		return err
	}
	w, err := l.watch(ctx, did, after)
	if err != nil {
		return err
	}
	defer w.leave()
	conn, err := callerOf(ctx).upgrade(out)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxAskBytes)
	s := &socket{watch: w, conn: conn, due: make(chan struct{}, 1)}
	l.logEnd(ctx, s.run(ctx))
	return nil
}

// upgrade accepts every origin, because browsers do not add the required token by themselves.
func upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	held := &upgrading{ResponseWriter: w}
	conn, err := websocket.Accept(held, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil, &bridge.ProblemError{Status: held.status, Title: http.StatusText(held.status), Code: bridge.CodeUsage, Detail: err.Error()}
	}
	return conn, nil
}

// upgrading drops the library's response to a failed upgrade, so that the API can report the problem.
type upgrading struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements [http.ResponseWriter].
func (u *upgrading) WriteHeader(status int) {
	if u.status = status; status == http.StatusSwitchingProtocols {
		u.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (*upgrading) Write(text []byte) (int, error) { return len(text), nil }

// Unwrap lets the library hijack the connection.
func (u *upgrading) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// socket uses one goroutine to write, one to read, and one to ping.
type socket struct {
	*watch

	conn *websocket.Conn
	due  chan struct{} // holds one token when a ping is due
}

// run returns nil if the client leaves or the gateway stops, and otherwise the reason.
func (s *socket) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	asked := make(chan []byte)
	group.Go(fault.Func(func() error { return s.listen(ctx, asked) }))
	group.Go(fault.Func(func() error { return s.beat(ctx) }))
	group.Go(fault.Func(func() error {
		err := s.writeLoop(ctx, asked)
		s.close(err) // before ctx ends, which closes the connection
		return err
	}))
	err := group.Wait()
	fault.Again(err)
	if errors.Is(err, errGatewayEnds) || websocket.CloseStatus(err) != -1 {
		return nil
	}
	return err
}

func (s *socket) listen(ctx context.Context, asked chan<- []byte) error {
	for {
		_, text, err := s.conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("read from WebSocket: %w", err)
		}
		select {
		case asked <- text:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// beat sends due pings, one at a time. It returns an error if the client does not respond in time.
func (s *socket) beat(ctx context.Context) error {
	for {
		select {
		case <-s.due:
		case <-ctx.Done():
			return ctx.Err()
		}
		inTime, cancel := context.WithTimeout(ctx, slowest)
		err := s.conn.Ping(inTime)
		cancel()
		if err != nil {
			return fmt.Errorf("ping: %w", err)
		}
	}
}

// writeLoop returns the reason for the end of the socket.
func (s *socket) writeLoop(ctx context.Context, asked <-chan []byte) error {
	again := time.NewTicker(heartbeat)
	defer again.Stop()
	attended, leave := s.link.access.Attend(ctx, callerOf(ctx).Caller)
	defer leave()
	var err error
	for err == nil {
		if err = s.drain(ctx, s.show); err != nil {
			break
		}
		select {
		case <-s.Notified:
		case text := <-asked:
			if err = s.link.access.CheckSession(ctx, callerOf(ctx).Caller); err == nil {
				err = s.send(ctx, s.answer(ctx, text))
			}
		case now := <-again.C: // the inbox is read afterwards, because a notification may be lost
			err = s.link.reauthenticate(ctx, now)
			select {
			case s.due <- struct{}{}:
			default: // the client has not answered the last ping
			}
		case <-s.link.Ended():
			err = errGatewayEnds
		case <-ctx.Done():
			err = ctx.Err()
		case <-attended.Done():
			if err = context.Cause(attended); ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}
	return err
}

func (s *socket) show(ctx context.Context, p *page) error {
	for i, text := range p.entries {
		if err := s.send(ctx, inboxFrame{Entry: text}); err != nil {
			return err
		}
		s.seen.entries = p.cursors[i]
	}
	for i, text := range p.notices {
		if err := s.send(ctx, inboxFrame{Notice: text}); err != nil {
			return err
		}
		s.seen.notices = p.noticed[i]
	}
	return nil
}

type inboxFrame struct {
	Entry  json.RawMessage `json:"entry,omitempty"`
	Notice json.RawMessage `json:"notice,omitempty"`
}

func (s *socket) answer(ctx context.Context, text []byte) contract.SocketTell {
	var answer contract.SocketTell
	ask, what, err := parseAsk(text)
	if err == nil {
		answer, err = s.do(ctx, ask, what)
	}
	answer.ID = ask.ID
	if err != nil {
		p := problemOf(err)
		s.link.logProblem(ctx, socketPath, p, err)
		answer.Problem = shape(p)
	}
	return answer
}

func (s *socket) do(ctx context.Context, ask contract.SocketAsk, what string) (answer contract.SocketTell, err error) {
	switch what {
	case "ack":
		err = s.link.ackInbox(ctx, ask.Ack)
	case "nack":
		err = s.link.nackInbox(ctx, ask.Nack)
	case "extend":
		err = s.link.extendInbox(ctx, ask.Extend)
	default:
		answer.Leases, err = s.link.lease(ctx, s.DID, ask.Lease, "")
		return answer, err
	}
	answer.Done = err == nil
	return answer, err
}

func (s *socket) send(ctx context.Context, m any) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	inTime, cancel := context.WithTimeout(ctx, slowest)
	defer cancel()
	if err := s.conn.Write(inTime, websocket.MessageText, text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// close sends the reason for the end to a client that can act on it.
func (s *socket) close(why error) {
	switch {
	case errors.Is(why, errGatewayEnds):
		_ = s.conn.Close(websocket.StatusGoingAway, why.Error())
	case problemOf(why).Status == http.StatusUnauthorized:
		_ = s.conn.Close(websocket.StatusPolicyViolation, problemOf(why).Detail)
	case problemOf(why).Status == http.StatusServiceUnavailable:
		_ = s.conn.Close(websocket.StatusTryAgainLater, "come again") // the token cannot be checked now
	}
}
