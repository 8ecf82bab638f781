package agentapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"baton/bridge/agentapi/contract"
)

// streamPath is where inboxes are watched as server-sent events.
const streamPath = Prefix + "inbox/stream"

// idle is a comment of server-sent events, which clients ignore.
const idle = ": here\n\n"

// stream is an inbox that a client watches as server-sent events.
type stream struct {
	*watch

	out     http.ResponseWriter
	control *http.ResponseController
	until   time.Time // the write deadline
}

// streamInbox writes the inbox and the notices after a position, and new arrivals. It blocks until
// the client leaves or may not read any more, or the gateway stops. It returns errors that occur before
// the first byte.
func (l *Link) streamInbox(ctx context.Context, out http.ResponseWriter, req contract.Stream) error {
	did, err := person(ctx)
	if err != nil {
		return err
	}
	after, err := l.start(ctx, did, cmp.Or(req.LastEventID, req.Cursor), req.Device)
	if err != nil {
		return err
	}
	w, err := l.watch(ctx, did, after)
	if err != nil {
		return err
	}
	defer w.leave()
	out.Header().Set("Content-Type", "text/event-stream")
	out.Header().Set("X-Accel-Buffering", "no") // a proxy would keep events until there are many
	s := &stream{watch: w, out: out, control: http.NewResponseController(out)}
	_ = s.control.SetReadDeadline(time.Time{}) // what has no deadline needs no other
	l.logEnd(ctx, s.run(ctx))
	return nil
}

// run returns why the stream ended, nil where the client left or the gateway stops.
func (s *stream) run(ctx context.Context) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	attended, leave := s.link.access.Attend(ctx, callerOf(ctx).Caller)
	defer leave()
	if err := s.send([]byte(idle)); err != nil { // which sends the header, too
		return err
	}
	for {
		if err := s.drain(ctx, s.show); err != nil {
			return err
		}
		select {
		case <-s.Notified:
		case now := <-beat.C:
			if err := s.beat(ctx, now); err != nil {
				return err
			}
		case <-s.link.Ended():
			return nil
		case <-ctx.Done():
			return nil
		case <-attended.Done():
			return context.Cause(attended)
		}
	}
}

// beat checks the token of the client and writes to it. The inbox is read after each beat, as
// a notification may be lost.
func (s *stream) beat(ctx context.Context, now time.Time) error {
	if err := s.link.reauthenticate(ctx, now); err != nil {
		return err
	}
	return s.send([]byte(idle))
}

// logEnd logs why the gateway or a client ended a watch, unless that is nil.
func (l *Link) logEnd(ctx context.Context, why error) {
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
	s.seen = p.end(s.seen)
	return s.send(p.events())
}

// send writes to the client. It fails where the client has left or is too slow.
func (s *stream) send(text []byte) error {
	if now := time.Now(); s.until.Sub(now) < slowest/2 { // a new deadline costs half as much as a write
		s.until = now.Add(slowest)
		_ = s.control.SetWriteDeadline(s.until) // what takes no deadline has none
	}
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return s.control.Flush()
}
