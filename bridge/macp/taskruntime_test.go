package macp_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// taskRuntime is a runtime with the handoff mode and the task mode that judges no message: it keeps
// each message once and shows it to all. The runtime of the authors of the protocol judges the same
// messages in the long tests.
type taskRuntime struct {
	mu       sync.Mutex
	changed  chan struct{}         // closed with the next change
	denied   map[string]bool       // modes that baton may not use
	sessions []*taskRuntimeSession // in the order in which they began
	signals  []*macpv1.Envelope
	// shown returns how many messages a stream of baton has by now, and the error that ends it, with
	// io.EOF for none. It gets the number of the stream in its session, from 1. Nil shows all messages.
	shown func(s *taskRuntimeSession, stream int) (count int, end error)
}

type taskRuntimeSession struct {
	about   *macpv1.SessionMetadata
	said    []*macpv1.Envelope
	streams int // of baton
}

// fakeRuntime runs a taskRuntime and returns its address. The participant baton may use only the
// given modes; none for all.
func fakeRuntime(t *testing.T, modes ...string) string {
	t.Helper()
	r := &taskRuntime{changed: make(chan struct{}), denied: map[string]bool{}}
	if len(modes) > 0 {
		r.denied[macpmode.TaskMode] = true
	}
	return r.serve(t)
}

// serve returns the address.
func (r *taskRuntime) serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	const path = "/macp.v1.MACPRuntimeService/"
	mux.Handle(path+"Initialize", connect.NewUnaryHandler(path+"Initialize", r.initialize))
	mux.Handle(path+"Send", connect.NewUnaryHandler(path+"Send", r.send))
	mux.Handle(path+"GetSession", connect.NewUnaryHandler(path+"GetSession", r.get))
	mux.Handle(path+"CancelSession", connect.NewUnaryHandler(path+"CancelSession", r.cancel))
	mux.Handle(path+"WatchSessions", connect.NewServerStreamHandler(path+"WatchSessions", r.watchSessions))
	mux.Handle(path+"WatchSignals", connect.NewServerStreamHandler(path+"WatchSignals", r.watchSignals))
	mux.Handle(path+"StreamSession", connect.NewBidiStreamHandler(path+"StreamSession", r.stream))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: patience}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener.Addr().String()
}

func (*taskRuntime) initialize(context.Context, *connect.Request[macpv1.InitializeRequest]) (*connect.Response[macpv1.InitializeResponse], error) {
	return connect.NewResponse(&macpv1.InitializeResponse{SelectedProtocolVersion: macpmode.Version, SupportedModes: []string{macpmode.Mode, macpmode.TaskMode}}), nil
}

// send keeps a message, once.
func (r *taskRuntime) send(_ context.Context, req *connect.Request[macpv1.SendRequest]) (*connect.Response[macpv1.SendResponse], error) {
	env := req.Msg.GetEnvelope()
	env.Sender = strings.TrimPrefix(req.Header().Get("Authorization"), "Bearer the token of ")
	r.mu.Lock()
	defer r.mu.Unlock()
	ack := &macpv1.Ack{Ok: true, MessageId: env.GetMessageId(), SessionId: env.GetSessionId()}
	if r.denied[env.GetMode()] && env.GetSender() == "baton" {
		ack.Ok, ack.Error = false, &macpv1.MACPError{Code: "FORBIDDEN", Message: "the mode is not allowed"}
		return connect.NewResponse(&macpv1.SendResponse{Ack: ack}), nil
	}
	s := r.session(env.GetSessionId())
	switch {
	case env.GetMessageType() == macpmode.TypeSignal:
		r.signals = append(r.signals, env)
	case s == nil && env.GetMessageType() == macpmode.TypeSessionStart:
		var start macpv1.SessionStartPayload
		if err := proto.Unmarshal(env.GetPayload(), &start); err != nil {
			return nil, err
		}
		r.sessions = append(r.sessions, &taskRuntimeSession{about: &macpv1.SessionMetadata{
			SessionId: env.GetSessionId(), Mode: env.GetMode(), State: macpv1.SessionState_SESSION_STATE_OPEN, Participants: start.GetParticipants(),
			Initiator: env.GetSender(), ContextId: start.GetContextId(),
		}, said: []*macpv1.Envelope{env}})
	case s == nil:
		ack.Ok, ack.Error = false, &macpv1.MACPError{Code: "SESSION_NOT_FOUND"}
	case s.has(env.GetMessageId()):
		ack.Duplicate = true
	case s.about.GetState() != macpv1.SessionState_SESSION_STATE_OPEN:
		ack.Ok, ack.Error = false, &macpv1.MACPError{Code: "SESSION_NOT_OPEN"}
	default:
		if s.said = append(s.said, env); env.GetMessageType() == macpmode.TypeCommitment {
			s.about.State = macpv1.SessionState_SESSION_STATE_RESOLVED
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return connect.NewResponse(&macpv1.SendResponse{Ack: ack}), nil
}

func (r *taskRuntime) session(id string) *taskRuntimeSession {
	for _, s := range r.sessions {
		if s.about.GetSessionId() == id {
			return s
		}
	}
	return nil
}

func (s *taskRuntimeSession) has(message string) bool {
	for _, env := range s.said {
		if env.GetMessageId() == message {
			return true
		}
	}
	return false
}

var errNoSession = connect.NewError(connect.CodeNotFound, errors.New("there is no such session"))

func (r *taskRuntime) get(_ context.Context, req *connect.Request[macpv1.GetSessionRequest]) (*connect.Response[macpv1.GetSessionResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.session(req.Msg.GetSessionId())
	if s == nil {
		return nil, errNoSession
	}
	return connect.NewResponse(&macpv1.GetSessionResponse{Metadata: proto.CloneOf(s.about)}), nil
}

func (r *taskRuntime) cancel(_ context.Context, req *connect.Request[macpv1.CancelSessionRequest]) (*connect.Response[macpv1.CancelSessionResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.session(req.Msg.GetSessionId())
	if s == nil {
		return nil, errNoSession
	}
	if s.about.GetState() == macpv1.SessionState_SESSION_STATE_OPEN {
		s.about.State = macpv1.SessionState_SESSION_STATE_CANCELLED
	}
	return connect.NewResponse(&macpv1.CancelSessionResponse{Ack: &macpv1.Ack{Ok: true}}), nil
}

// shows calls send for each item of a list that grows, from an index on, until ctx ends.
func shows[Item any](ctx context.Context, r *taskRuntime, from int, list func() []Item, send func(Item) error) error {
	for {
		r.mu.Lock()
		items, changed := list()[from:], r.changed
		r.mu.Unlock()
		for _, item := range items {
			if err := send(item); err != nil {
				return err
			}
			from++
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *taskRuntime) watchSessions(ctx context.Context, _ *connect.Request[macpv1.WatchSessionsRequest], to *connect.ServerStream[macpv1.WatchSessionsResponse]) error {
	if err := to.Send(nil); err != nil {
		return err
	}
	return shows(ctx, r, 0, func() []*taskRuntimeSession { return r.sessions }, func(s *taskRuntimeSession) error {
		r.mu.Lock()
		about := proto.CloneOf(s.about)
		r.mu.Unlock()
		return to.Send(&macpv1.WatchSessionsResponse{Event: &macpv1.SessionLifecycleEvent{EventType: macpv1.SessionLifecycleEvent_EVENT_TYPE_CREATED, Session: about}})
	})
}

func (r *taskRuntime) watchSignals(ctx context.Context, _ *connect.Request[macpv1.WatchSignalsRequest], to *connect.ServerStream[macpv1.WatchSignalsResponse]) error {
	r.mu.Lock()
	from := len(r.signals)
	r.mu.Unlock()
	if err := to.Send(nil); err != nil {
		return err
	}
	return shows(ctx, r, from, func() []*macpv1.Envelope { return r.signals }, func(env *macpv1.Envelope) error {
		return to.Send(&macpv1.WatchSignalsResponse{Envelope: env, SenderAuthenticated: true})
	})
}

func (r *taskRuntime) stream(ctx context.Context, at *connect.BidiStream[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse]) error {
	asked, err := at.Receive()
	if err != nil {
		return err
	}
	all := r.shown == nil || at.RequestHeader().Get("Authorization") != "Bearer "+token("baton")
	r.mu.Lock()
	s, number := r.session(asked.GetSubscribeSessionId()), 0
	if s != nil && !all {
		s.streams++
		number = s.streams
	}
	r.mu.Unlock()
	if s == nil {
		return errNoSession
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the client closes its half
		_, _ = at.Receive()
		cancel()
	}()
	var end error
	err = shows(ctx, r, int(asked.GetAfterSequence()), func() []*macpv1.Envelope {
		if all {
			return s.said
		}
		var count int
		if count, end = r.shown(s, number); end != nil {
			cancel()
		}
		return s.said[:count]
	}, func(env *macpv1.Envelope) error {
		return at.Send(&macpv1.StreamSessionResponse{Response: &macpv1.StreamSessionResponse_Envelope{Envelope: env}})
	})
	if errors.Is(end, io.EOF) {
		return nil
	}
	return cmp.Or(end, err)
}
