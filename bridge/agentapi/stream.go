package agentapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"baton/bridge/agentapi/contract"
	"baton/federation"
)

// streamPath is where inboxes are watched as server-sent events.
const streamPath = Prefix + "inbox/stream"

// idle is a comment, which no reader of a stream sees.
const idle = ": here\n\n"

// StreamInbox implements [contract.StrictServerInterface].
func (l *Link) StreamInbox(ctx context.Context, req contract.StreamInboxRequestObject) (contract.StreamInboxResponseObject, error) {
	did, err := person(ctx)
	if err != nil {
		return nil, err
	}
	from := cmp.Or(req.Params.LastEventID, req.Params.Cursor)
	after, err := l.start(ctx, did, from, req.Params.Device)
	if err != nil {
		return nil, err
	}
	return streamed(func(w http.ResponseWriter) error { return l.stream(ctx, w, did, after) }), nil
}

// streamed is an answer that goes on for as long as somebody watches.
type streamed func(w http.ResponseWriter) error

// VisitStreamInboxResponse implements [contract.StreamInboxResponseObject]. Its error is
// from before the first byte.
func (begin streamed) VisitStreamInboxResponse(w http.ResponseWriter) error { return begin(w) }

// stream is an inbox that is watched as server-sent events. It has a turn whenever
// something may have come, and at each heartbeat.
type stream struct {
	*watch
	guest

	ctx     context.Context // of the request; it does not end with it
	control *http.ResponseController
	until   time.Time   // what is written is to be taken
	beats   atomic.Bool // a heartbeat is due
	again   *time.Timer // until it is
}

// stream shows what is in an inbox, and the notices, after what was seen, and what arrives,
// for as long as the watcher is there, may read it, and the gateway runs.
func (l *Link) stream(ctx context.Context, out http.ResponseWriter, did federation.DID, after seen) error {
	s := &stream{ctx: context.WithoutCancel(ctx)}
	var err error
	if s.watch, err = l.watch(ctx, did, after, s.call); err != nil {
		return err
	}
	out.Header().Set("Content-Type", "text/event-stream")
	out.Header().Set("X-Accel-Buffering", "no") // a proxy would keep events until there are many
	s.again = time.AfterFunc(heartbeat, s.beat)
	s.beat() // where nothing waits, the header goes out with it
	s.receive(ctx, out, s.take)
	return nil
}

// beat has the watcher told that it is there.
func (s *stream) beat() {
	s.beats.Store(true)
	s.call()
}

// take is a turn.
func (s *stream) take() (stays bool) {
	if stays = !s.gone.Load() && !s.link.isOver(); stays {
		err := s.tell()
		s.link.left(s.ctx, err)
		stays = err == nil
	}
	if !stays {
		s.again.Stop()
		s.leave()
	}
	return stays
}

// tell writes what is there: at a heartbeat at least that, if the watcher may still read. A
// wake-up may be lost, so that each looks.
func (s *stream) tell() error {
	if s.beats.Swap(false) {
		s.again.Reset(heartbeat)
		now := time.Now()
		if err := s.link.still(s.ctx, now); err != nil {
			return err
		}
		if err := s.send([]byte(idle)); err != nil {
			return err
		}
	}
	return s.drain(s.ctx, s.show)
}

// left notes why somebody watches no more, nil where they or the gateway went.
func (l *Link) left(ctx context.Context, why error) {
	if why != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "a watched inbox is left", slog.String("network", network),
			slog.String("link", network), slog.Any("err", why))
	}
}

// show writes entries and notices as events.
func (s *stream) show(_ context.Context, p *page) error {
	if len(p.entries)+len(p.notices) == 0 {
		return nil
	}
	s.seen = p.next(place{seen: s.seen}).seen
	return s.send(p.events())
}

// send writes to the watcher, who is gone or slow when that fails.
func (s *stream) send(text []byte) error {
	if s.control == nil {
		s.control = http.NewResponseController(s.out)
	}
	if now := time.Now(); s.until.Sub(now) < slowest/2 { // else it has enough, and to change it costs half of a write
		s.until = now.Add(slowest)
		_ = s.control.SetWriteDeadline(s.until) // what takes no deadline has none
	}
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return s.control.Flush()
}
