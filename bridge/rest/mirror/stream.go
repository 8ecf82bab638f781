package mirror

import (
	"bytes"
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

// streamed is an answer that goes on for as long as somebody watches.
type streamed func(w http.ResponseWriter) error

// VisitStreamInboxResponse implements [contract.StreamInboxResponseObject].
func (s streamed) VisitStreamInboxResponse(w http.ResponseWriter) error { return s(w) }

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
	return streamed(func(w http.ResponseWriter) error { return l.stream(ctx, w, did, after) }), nil
}

// stream writes what arrives after a cursor for as long as its watcher is there, may read
// it, and the gateway runs. Its error is from before the first byte.
func (l *Link) stream(ctx context.Context, out http.ResponseWriter, did federation.DID, after federation.Cursor) error {
	w, err := l.watch(ctx, did, after)
	if err != nil {
		return err
	}
	defer w.leave()
	out.Header().Set("Content-Type", "text/event-stream")
	out.Header().Set("X-Accel-Buffering", "no") // a proxy would keep events until there are many
	s := &stream{watch: w, out: out, control: http.NewResponseController(out)}
	l.left(ctx, s.run(ctx))
	return nil
}

// left notes why somebody watches no more, nil where they or the gateway went.
func (l *Link) left(ctx context.Context, why error) {
	if why != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "a watched inbox is left", slog.String("network", network),
			slog.String("link", network), slog.Any("err", why))
	}
}

// stream is an inbox that is watched as server-sent events.
type stream struct {
	*watch

	out     http.ResponseWriter
	control *http.ResponseController
}

// run writes what is there, and what arrives, until the watcher or the gateway goes. It
// returns why it stopped before that.
func (s *stream) run(ctx context.Context) error {
	again := time.NewTicker(heartbeat)
	defer again.Stop()
	err := s.send([]byte(idle)) // where nothing waits, the header goes out with it
	for err == nil {
		if err = s.drain(ctx, s.show); err != nil {
			break
		}
		select {
		case <-s.wake:
		case now := <-again.C: // a wake-up may be lost, so that this looks too
			if err = callerOf(ctx).still(now); err == nil {
				err = s.send([]byte(idle))
			}
		case <-s.link.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return err
}

// show writes entries as events.
//
// spec: HTML Living Standard §9.2
func (s *stream) show(_ context.Context, p page) error {
	if len(p.entries) == 0 {
		return nil
	}
	var text bytes.Buffer
	for i, data := range p.entries {
		fmt.Fprintf(&text, "id: %s\nevent: step\ndata: %s\n\n", p.cursors[i], data)
	}
	s.after = p.last(s.after)
	return s.send(text.Bytes())
}

// send writes to the watcher, who is gone or slow when that fails.
func (s *stream) send(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(slowest)) // what takes no deadline has none
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return s.control.Flush()
}
