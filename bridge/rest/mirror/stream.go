package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/rest"
	"baton/bridge/rest/contract"
	"baton/federation"
)

// heartbeat is how often a stream on which nothing comes says that it is there, and its
// caller is let in anew. Proxies end what is silent for a minute.
const heartbeat = 15 * time.Second

// idle is a comment, which no reader of a stream sees.
const idle = ": here\n\n"

// streamPage is how many entries are read at a time, and so what one watcher may hold.
const streamPage = 50

// slowest is how long a watcher may take to take what is written. One that takes longer
// comes again, from where it was.
const slowest = 30 * time.Second

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
func (l *Link) stream(ctx context.Context, w http.ResponseWriter, did federation.DID, after federation.Cursor) error {
	select {
	case l.streams <- struct{}{}:
		defer func() { <-l.streams }()
	default:
		return &rest.ProblemError{
			Status: http.StatusServiceUnavailable, Code: rest.CodeUnavailable, RetryAfter: int(heartbeat.Seconds()),
			Detail: fmt.Sprintf("%d inboxes are watched, and no more can be: poll with wait, or come again", l.cfg.MaxStreams),
		}
	}
	wake, stop := l.deps.Wakes.Subscribe(bridge.DIDTopic(did)) // before the first look, so that nothing comes in between
	defer stop()
	s := &stream{link: l, did: did, after: after, out: w, control: http.NewResponseController(w)}
	first, err := s.next(ctx)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy would keep events until there are many
	if why := s.run(ctx, wake, first); why != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "a watched inbox is left", slog.String("network", network),
			slog.String("link", network), slog.Any("err", why))
	}
	return nil
}

// stream is an inbox that is watched.
type stream struct {
	link    *Link
	did     federation.DID
	after   federation.Cursor // of what was written last
	out     http.ResponseWriter
	control *http.ResponseController
}

// run writes what was read first, and what arrives, until the watcher or the gateway
// goes. It returns why it stopped before that.
func (s *stream) run(ctx context.Context, wake <-chan struct{}, first []federation.Entry) error {
	again := time.NewTicker(heartbeat)
	defer again.Stop()
	err := s.send([]byte(idle)) // where nothing waits, the header goes out with it
	if err == nil {
		err = s.show(ctx, first)
	}
	for err == nil {
		if err = s.drain(ctx); err != nil {
			break
		}
		select {
		case <-wake:
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

// next reads what comes after what was written.
func (s *stream) next(ctx context.Context) ([]federation.Entry, error) {
	return s.link.deps.Record.Replay(ctx, s.did, s.after, streamPage)
}

// drain writes all there is. What cannot be read now is read the next time.
func (s *stream) drain(ctx context.Context) error {
	for {
		entries, err := s.next(ctx)
		if _, away := errors.AsType[*federation.UnavailableError](err); away || err == nil && len(entries) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.show(ctx, entries); err != nil {
			return err
		}
	}
}

// show writes entries as events.
//
// spec: HTML Living Standard §9.2
func (s *stream) show(ctx context.Context, entries []federation.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var text bytes.Buffer
	for _, e := range entries {
		data, err := json.Marshal(s.link.shapeEntry(ctx, e))
		if err != nil {
			return fmt.Errorf("write entry: %w", err)
		}
		fmt.Fprintf(&text, "id: %s\nevent: step\ndata: %s\n\n", e.Cursor, data)
	}
	s.after = entries[len(entries)-1].Cursor
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
