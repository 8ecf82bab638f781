package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// At each heartbeat, a quiet stream is written to and its task is read again, because a wake-up may be
// lost.
//
// spec: agent-faces "Streaming"
const heartbeat = 15 * time.Second

// A client slower than this write timeout is disconnected and must subscribe again.
const slowest = 30 * time.Second

// follow returns nil when the handoff is over, ctx ends or the gateway stops. It returns the errors of show
// and beat.
func (l *Link) follow(ctx context.Context, f *fold, show func(update) error, beat func() error) error {
	wake, stop := l.deps.PubSub.Subscribe(bridge.HandoffTopic(f.view.ID))
	defer stop()
	beats := time.NewTicker(heartbeat)
	defer beats.Stop()
	for {
		if err := l.catchUp(ctx, f, show); err != nil || f.over() {
			return unlessOver(ctx, err)
		}
		select {
		case <-wake:
		case <-beats.C:
			if err := beat(); err != nil {
				return err
			}
		case <-l.Ended():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the caller has waited long enough, or is gone
	}
	return err
}

// catchUp does nothing if the record is unavailable; the next heartbeat retries.
func (l *Link) catchUp(ctx context.Context, f *fold, show func(update) error) error {
	view, err := l.deps.Gateway.View(ctx, f.view.ID)
	if err == nil && view.Version > f.last.Version {
		f.view = view
		err = l.read(ctx, f, show)
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		return nil
	}
	return err
}

// over reports whether the last read step ended the handoff.
func (f *fold) over() bool { return f.view.Over && f.last.Version == f.view.Version }

type stream struct {
	link    *Link
	request request
	out     http.ResponseWriter
	control *http.ResponseController
}

const eventStream = "text/event-stream"

// serveStream writes an error before the first event as a plain response, or as an event to JSON-RPC
// clients that requested an event stream, because they may read only events.
func (l *Link) serveStream(ctx context.Context, w http.ResponseWriter, req request) {
	s := &stream{link: l, request: req, out: w, control: http.NewResponseController(w)}
	f, err := l.streamed(ctx, req)
	switch {
	case err != nil && req.rest:
		l.replyREST(ctx, w, req, nil, err)
		return
	case err != nil && !req.events:
		l.reply(ctx, w, req, nil, err)
		return
	case err == nil:
		err = l.attend(ctx, req, f, s.show, func() error { return s.beat(ctx) })
	}
	if err == nil {
		return
	}
	if err := s.fail(ctx, err); err != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "a stream is left", slog.String("network", network), slog.String("link", network), slog.Any("err", err))
	}
}

func (l *Link) streamed(ctx context.Context, req request) (*fold, error) {
	if req.Method == methodStream {
		f, _, err := l.send(ctx, req)
		return f, err
	}
	p, err := params[wire.SubscribeToTaskRequest](req)
	if err != nil {
		return nil, err
	}
	view, err := l.find(ctx, req, p.ID)
	if err != nil {
		return nil, err
	}
	if view.Over {
		return nil, fault(codeUnsupported, "the task is over; get it")
	}
	return l.readTask(ctx, view)
}

func (l *Link) stillAllowed(ctx context.Context, req request) error {
	r := &http.Request{Header: http.Header{"Authorization": {req.bearer}}}
	_, err := l.authenticate(r.WithContext(ctx))
	return err
}

// attend returns when the task is over, the client leaves or loses access, or the gateway stops.
func (l *Link) attend(ctx context.Context, req request, f *fold, show func(update) error, beat func() error) error {
	if !l.deps.Streams.Take(l.deps.HTTP.MaxStreams) {
		return &federation.UnavailableError{What: "another stream", RetryAfter: heartbeat}
	}
	defer l.deps.Streams.Leave()
	first := f.task()
	if err := show(update{Task: first}); err != nil {
		return l.left(ctx, err)
	}
	l.noteRead(ctx, req.caller.DID, first.steps...)
	attended, leave := l.access.Attend(ctx, req.caller)
	defer leave()
	each := func(u update) error {
		if err := l.access.CheckSession(ctx, req.caller); err != nil {
			return err
		}
		err := show(u)
		if err == nil && u.Status != nil { // the last event of its step
			l.noteRead(ctx, req.caller.DID, f.last.Event.ID)
		}
		return err
	}
	err := l.follow(attended, f, each, beat)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(attended)
	}
	return l.left(ctx, err)
}

type leftError struct{ why error }

func (e *leftError) Error() string { return e.why.Error() }

func (l *Link) left(ctx context.Context, err error) error {
	if gone, ok := errors.AsType[*leftError](err); ok {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "a stream is left", slog.String("network", network), slog.String("link", network), slog.Any("err", gone.why))
		return nil
	}
	return err
}

// beat also checks the token of the client.
func (s *stream) beat(ctx context.Context) error {
	if err := s.link.stillAllowed(ctx, s.request); err != nil {
		return err
	}
	return s.write([]byte(": here\n\n"))
}

func (s *stream) show(u update) error {
	if s.request.rest {
		return s.send(u)
	}
	return s.send(response{Version: rpcVersion, ID: s.request.ID, Result: u})
}

func (s *stream) fail(ctx context.Context, err error) error {
	if s.request.rest {
		told, _ := s.link.restErrorOf(ctx, s.request, err)
		return s.send(told)
	}
	return s.send(s.link.responseOf(ctx, s.request, nil, err))
}

func (s *stream) send(answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return s.write(fmt.Appendf(nil, "data: %s\n\n", text))
}

// write sends the header before the first text.
func (s *stream) write(text []byte) error {
	h := s.out.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")                        // prevents proxies from buffering events
	_ = s.control.SetReadDeadline(time.Time{})              // fails only on a stream without deadlines
	_ = s.control.SetWriteDeadline(time.Now().Add(slowest)) // likewise
	if _, err := s.out.Write(text); err != nil {
		return &leftError{err}
	}
	if err := s.control.Flush(); err != nil {
		return &leftError{err}
	}
	return nil
}
