package mirror

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"baton/bridge/rest/contract"
	"baton/federation"
)

// idle is a comment, which no reader of a stream sees.
const idle = ": here\n\n"

// StreamInbox implements [contract.StrictServerInterface].
func (l *Link) StreamInbox(ctx context.Context, req contract.StreamInboxRequestObject) (contract.StreamInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	from := federation.Cursor(cmp.Or(req.Params.LastEventID, req.Params.Cursor))
	after, err := l.start(ctx, did, from, req.Params.Device)
	if err != nil {
		return nil, err
	}
	return streamed(func(w http.ResponseWriter) (*stream, error) { return l.stream(ctx, w, did, after) }), nil
}

// streamed is an answer that goes on for as long as somebody watches.
type streamed func(w http.ResponseWriter) (*stream, error)

// VisitStreamInboxResponse implements [contract.StreamInboxResponseObject]. Its error is
// from before the first byte.
func (begin streamed) VisitStreamInboxResponse(w http.ResponseWriter) error {
	s, err := begin(w)
	if err == nil {
		s.run()
	}
	return err
}

// stream is an inbox that is watched as server-sent events.
type stream struct {
	*watch

	ctx     context.Context // of the request
	out     http.ResponseWriter
	control *http.ResponseController
}

// stream begins to show what is in an inbox after a cursor.
func (l *Link) stream(ctx context.Context, out http.ResponseWriter, did federation.DID, after federation.Cursor) (*stream, error) {
	w, err := l.watch(ctx, did, after)
	if err != nil {
		return nil, err
	}
	out.Header().Set("Content-Type", "text/event-stream")
	out.Header().Set("X-Accel-Buffering", "no") // a proxy would keep events until there are many
	return &stream{watch: w, ctx: ctx, out: out, control: http.NewResponseController(out)}, nil
}

// run writes what is there, and what arrives, for as long as the watcher is there, may
// read it, and the gateway runs. It does little by itself: whoever waits keeps a stack that
// has room for all calls that it is in.
func (s *stream) run() {
	defer s.leave()
	there := s.turn(s.send([]byte(idle))) // where nothing waits, the header goes out with it
	for there {
		select {
		case <-s.wake:
			s.rouse()
			there = s.turn(nil)
		case <-s.passed:
			there = s.turn(nil)
		case <-s.again.C: // a wake-up may be lost, so that this looks too
			there = s.turn(s.beat())
		case <-s.link.ended:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// turn shows what there is, unless something went wrong before. It reports whether the
// watcher is still there.
func (s *stream) turn(err error) bool {
	if err == nil {
		err = s.drain(s.ctx, s.show)
	}
	s.link.left(s.ctx, err)
	return err == nil
}

// beat tells the watcher that it is there, if it may still read.
func (s *stream) beat() error {
	if err := callerOf(s.ctx).still(time.Now()); err != nil {
		return err
	}
	return s.send([]byte(idle))
}

// left notes why somebody watches no more, nil where they or the gateway went.
func (l *Link) left(ctx context.Context, why error) {
	if why != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "a watched inbox is left", slog.String("network", network),
			slog.String("link", network), slog.Any("err", why))
	}
}

// show writes entries as events.
//
// spec: HTML Living Standard §9.2
func (s *stream) show(_ context.Context, p *page) error {
	if len(p.entries) == 0 {
		return nil
	}
	var text []byte
	for i, data := range p.entries {
		text = append(append(text, "id: "...), p.cursors[i]...)
		text = append(append(text, "\nevent: step\ndata: "...), data...)
		text = append(text, "\n\n"...)
	}
	s.after = p.last(s.after)
	return s.send(text)
}

// send writes to the watcher, who is gone or slow when that fails.
func (s *stream) send(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(slowest)) // what takes no deadline has none
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return s.control.Flush()
}
