package macp

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

type bidi = connect.BidiStream[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse]

// converse serves a stream bound to one session. The stream ends with the session, or when the
// client has closed its side and follows nothing.
func (l *Link) converse(ctx context.Context, from participant, s *bidi) error {
	ctx, stop := context.WithCancel(ctx)
	c := &conversation{link: l, from: from, stream: s, followed: make(chan error, 1)}
	defer c.following.Wait() // after stop
	defer stop()
	if err := s.Send(nil); err != nil { // the header
		return err
	}
	frames, closed := receive(ctx, s)
	for {
		select {
		case frame := <-frames:
			if err := c.handleFrame(ctx, frame); err != nil {
				return err
			}
		case err := <-c.followed:
			return err
		case err := <-closed:
			if !errors.Is(err, io.EOF) || !c.follows {
				return unlessEOF(err)
			}
			closed = nil // the client continues to read
		}
	}
}

// The goroutine ends after the stream handler has returned, which closes the request.
func receive(ctx context.Context, s *bidi) (<-chan *macpv1.StreamSessionRequest, <-chan error) {
	frames, closed := make(chan *macpv1.StreamSessionRequest), make(chan error, 1)
	go func() {
		err := fault.Catch(func() error {
			for {
				frame, err := s.Receive()
				if err != nil {
					return err
				}
				select {
				case frames <- frame:
				case <-ctx.Done():
					return nil
				}
			}
		})
		closed <- err // buffered
	}()
	return frames, closed
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type conversation struct {
	link      *Link
	from      participant
	stream    *bidi
	session   string
	follows   bool
	following fault.Group
	followed  chan error
	writing   sync.Mutex
}

func (c *conversation) handleFrame(ctx context.Context, frame *macpv1.StreamSessionRequest) error {
	env, subscribed := frame.GetEnvelope(), frame.GetSubscribeSessionId()
	switch {
	case env != nil && subscribed != "", env == nil && subscribed == "":
		return macpmode.Refuse(macpmode.InvalidRequest, "a frame has an envelope or subscribe_session_id")
	case subscribed != "" && c.follows:
		return macpmode.Refuse(macpmode.InvalidRequest, "the stream is subscribed")
	case c.session != "" && c.session != subscribed+env.GetSessionId():
		return macpmode.Refuse(macpmode.InvalidRequest, "the stream is bound to another session")
	case subscribed != "":
		c.session = subscribed
		c.follow(ctx, frame.GetAfterSequence())
		return nil
	}
	return c.write(ctx, env)
}

// A refusal is sent as a frame, and the stream continues.
func (c *conversation) write(ctx context.Context, env *macpv1.Envelope) error {
	ack := c.link.send(ctx, c.from, env)
	if !ack.GetOk() {
		return c.send(&macpv1.StreamSessionResponse{Response: &macpv1.StreamSessionResponse_Error{Error: ack.GetError()}})
	}
	if c.session = env.GetSessionId(); c.session == "" || c.follows {
		return nil
	}
	var sequence uint64
	if err := c.link.read(ctx, c.from, c.session, func(t *turn) error {
		sequence = t.session.Sequence
		return nil
	}); err != nil {
		return err
	}
	c.follow(ctx, sequence-1) // its own envelope is the first to read
	return nil
}

func (c *conversation) follow(ctx context.Context, after uint64) {
	c.follows = true
	c.following.Go(func() {
		c.followed <- fault.Catch(func() error {
			return c.link.follow(ctx, c.from, c.session, after, func(n numbered) error {
				return c.send(&macpv1.StreamSessionResponse{Response: &macpv1.StreamSessionResponse_Envelope{Envelope: n.env}})
			})
		})
	})
}

func (c *conversation) send(answer *macpv1.StreamSessionResponse) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.stream.Send(answer)
}

// Reasons for the end of an outlet.
var (
	errLagging = errors.New("the reader is too slow")
	errReread  = errors.New("the session is read again")
)

// The engine never waits for the reader: a full outlet ends.
type outlet[T any] struct {
	out    chan T
	why    error // set before out is closed; nil without an error
	closed bool  // owned by the engine
}

func newOutlet[T any]() *outlet[T] { return &outlet[T]{out: make(chan T, subscription)} }

func (o *outlet[T]) send(v T) {
	if o.closed {
		return
	}
	select {
	case o.out <- v:
	default:
		o.end(errLagging)
	}
}

func (o *outlet[T]) end(why error) {
	if !o.closed {
		o.closed, o.why = true, why
		close(o.out)
	}
}

type numbered struct {
	env      *macpv1.Envelope
	sequence uint64
}

type stream struct{ *outlet[numbered] }

func (s *stream) send(env *macpv1.Envelope, sequence uint64) { s.outlet.send(numbered{env, sequence}) }

func (s *stream) over(state macpv1.SessionState) { s.end(overError(state)) }

// lost ends the stream of a session that must be reread.
func (s *stream) lost() { s.end(errReread) }

// overError returns nil after the envelope that resolved the session; a cancelled or expired
// session has no such envelope.
func overError(state macpv1.SessionState) error {
	switch state {
	case macpv1.SessionState_SESSION_STATE_CANCELLED:
		return macpmode.Refuse(macpmode.SessionNotOpen, "the session was cancelled")
	case macpv1.SessionState_SESSION_STATE_EXPIRED:
		return macpmode.Refuse(macpmode.SessionNotOpen, "the session has expired")
	case macpv1.SessionState_SESSION_STATE_UNSPECIFIED, macpv1.SessionState_SESSION_STATE_OPEN, macpv1.SessionState_SESSION_STATE_RESOLVED,
		macpv1.SessionState_SESSION_STATE_SUSPENDED:
	}
	return nil
}

const maxWatchers = 64

// The engine owns the watchers.
type watchers struct {
	sessions map[string]map[*outlet[*macpv1.SessionLifecycleEvent]]bool
	signals  map[string]map[*outlet[*macpv1.WatchSignalsResponse]]bool
	policies map[string]map[*outlet[*macpv1.WatchPoliciesResponse]]bool
}

func newWatchers() *watchers {
	return &watchers{
		sessions: map[string]map[*outlet[*macpv1.SessionLifecycleEvent]]bool{},
		signals:  map[string]map[*outlet[*macpv1.WatchSignalsResponse]]bool{},
		policies: map[string]map[*outlet[*macpv1.WatchPoliciesResponse]]bool{},
	}
}

func watch[T any](of map[string]map[*outlet[T]]bool, name string) (*outlet[T], error) {
	if len(of[name]) >= maxWatchers {
		return nil, macpmode.Refuse(macpmode.RateLimited, "at most %d streams of this kind", maxWatchers)
	}
	if of[name] == nil {
		of[name] = map[*outlet[T]]bool{}
	}
	o := newOutlet[T]()
	of[name][o] = true
	return o, nil
}

func unwatch[T any](of map[string]map[*outlet[T]]bool, name string, o *outlet[T]) {
	delete(of[name], o)
	o.end(nil)
	if len(of[name]) == 0 {
		delete(of, name)
	}
}

func broadcast[T any](of map[string]map[*outlet[T]]bool, names []string, v T) {
	notified := map[string]bool{}
	for _, name := range names {
		if !notified[name] {
			notified[name] = true
			for o := range of[name] {
				o.send(v)
			}
		}
	}
}

// The sender of the signal is authenticated.
func (w *watchers) signal(names []string, env *macpv1.Envelope) {
	broadcast(w.signals, names, &macpv1.WatchSignalsResponse{Envelope: env, SenderAuthenticated: true})
}

func (w *watchers) session(names []string, ev *macpv1.SessionLifecycleEvent, at int64) {
	ev.ObservedAtUnixMs = at
	broadcast(w.sessions, names, ev)
}

func lifecycle(env *macpv1.Envelope, meta *macpv1.SessionMetadata) *macpv1.SessionLifecycleEvent {
	ev := &macpv1.SessionLifecycleEvent{Session: meta}
	switch meta.GetState() {
	case macpv1.SessionState_SESSION_STATE_OPEN:
		ev.EventType = macpv1.SessionLifecycleEvent_EVENT_TYPE_CREATED
		if env.GetMessageType() == macpmode.TypeSessionResume {
			ev.EventType = macpv1.SessionLifecycleEvent_EVENT_TYPE_RESUMED
		}
	case macpv1.SessionState_SESSION_STATE_RESOLVED:
		ev.EventType = macpv1.SessionLifecycleEvent_EVENT_TYPE_RESOLVED
	case macpv1.SessionState_SESSION_STATE_EXPIRED:
		ev.EventType = macpv1.SessionLifecycleEvent_EVENT_TYPE_EXPIRED
	case macpv1.SessionState_SESSION_STATE_SUSPENDED:
		ev.EventType = macpv1.SessionLifecycleEvent_EVENT_TYPE_SUSPENDED
	case macpv1.SessionState_SESSION_STATE_CANCELLED:
		ev.EventType = macpv1.SessionLifecycleEvent_EVENT_TYPE_CANCELLED
	case macpv1.SessionState_SESSION_STATE_UNSPECIFIED:
	}
	return ev
}
