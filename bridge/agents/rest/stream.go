package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

const streamPath = Prefix + "inbox/stream"

// Clients ignore server-sent comments.
const idle = ": here\n\n"

type stream struct {
	*watch

	out     http.ResponseWriter
	control *http.ResponseController
	until   time.Time // write deadline
}

// streamInbox blocks until the client leaves or loses access, or the gateway stops. It returns only errors
// before the first byte.
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
	out.Header().Set("X-Accel-Buffering", "no") // prevents proxies from buffering events
	s := &stream{watch: w, out: out, control: http.NewResponseController(out)}
	_ = s.control.SetReadDeadline(time.Time{}) // a connection without deadlines needs no reset
	l.logEnd(ctx, s.run(ctx))
	return nil
}

// run returns nil if the client left or the gateway stops.
func (s *stream) run(ctx context.Context) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	attended, leave := s.link.access.Attend(ctx, callerOf(ctx).Caller)
	defer leave()
	if err := s.send([]byte(idle)); err != nil { // also sends the header
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

// beat checks the token. The inbox is read afterwards, because a notification may be lost.
func (s *stream) beat(ctx context.Context, now time.Time) error {
	if err := s.link.reauthenticate(ctx, now); err != nil {
		return err
	}
	return s.send([]byte(idle))
}

func (l *Link) logEnd(ctx context.Context, why error) {
	if why != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "inbox stream closed", slog.String("network", network),
			slog.String("link", network), slog.Any("err", why))
	}
}

func (s *stream) show(_ context.Context, p *page) error {
	if len(p.entries)+len(p.notices) == 0 {
		return nil
	}
	s.seen = p.end(s.seen)
	return s.send(p.events())
}

func (s *stream) send(text []byte) error {
	if now := time.Now(); s.until.Sub(now) < slowest/2 { // setting a deadline costs half as much as a write
		s.until = now.Add(slowest)
		_ = s.control.SetWriteDeadline(s.until) // a connection without deadlines has none to clear
	}
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return s.control.Flush()
}

// Proxies close connections that are idle for a minute.
const heartbeat = 15 * time.Second

// This limit on the entries and the notices of a read bounds the memory of one watcher.
const watchPage = 50

// A watcher slower than this write timeout is disconnected, and resumes later from its last position.
const slowest = 30 * time.Second

// watch does not change the inbox.
type watch struct {
	*participant.Subscriber[place, *page]

	link *Link

	seen  seen  // last position written
	first *page // page at the start, until it is written
}

// watch returns a [*bridge.ProblemError] if too many inboxes are watched. The caller must call leave.
func (l *Link) watch(ctx context.Context, did federation.DID, after seen) (*watch, error) {
	if !l.acquire() {
		return nil, &bridge.ProblemError{
			Status: http.StatusServiceUnavailable, Code: bridge.CodeUnavailable, RetryAfter: int(heartbeat.Seconds()),
			Detail: fmt.Sprintf("%d inboxes are watched, the maximum: poll with wait, or try again later", l.cfg.MaxStreams),
		}
	}
	w := &watch{Subscriber: l.topics.Subscribe(did), link: l, seen: after}
	var err error
	if w.first, err = w.next(ctx); err != nil {
		w.leave()
		return nil, err
	}
	return w, nil
}

func (l *Link) acquire() bool {
	if !l.deps.Streams.Take(l.cfg.MaxStreams) {
		return false
	}
	select {
	case l.streams <- struct{}{}:
		return true
	default: // the API is stopping
		l.deps.Streams.Leave()
		return false
	}
}

func (w *watch) leave() {
	w.Leave()
	w.link.deps.Streams.Leave()
	<-w.link.streams
}

func (w *watch) next(ctx context.Context) (*page, error) {
	return w.Look(ctx, place{w.seen, watchPage, true})
}

// drain returns nil during an outage of the record, and the next heartbeat retries. Entries filed after a
// partial page notify the watcher.
func (w *watch) drain(ctx context.Context, show func(ctx context.Context, p *page) error) error {
	for {
		p := w.first
		w.first = nil
		if p == nil {
			var err error
			p, err = w.next(ctx)
			if _, away := errors.AsType[*federation.UnavailableError](err); away {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if len(p.entries)+len(p.notices) > 0 {
			err := w.link.access.CheckSession(ctx, callerOf(ctx).Caller)
			if _, away := errors.AsType[*federation.UnavailableError](err); away {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if err := show(ctx, p); err != nil || max(len(p.entries), len(p.notices)) < watchPage {
			return err
		}
	}
}

// page is the encoded result of one read. It is shared and immutable.
type page struct {
	began   time.Time         // start of the read
	entries []json.RawMessage // each a [contract.Entry]
	cursors []federation.Cursor
	types   []string          // of the entries
	notices []json.RawMessage // each a [contract.Notice]
	noticed []federation.Cursor
	events  func() []byte          // page as server-sent events; formatted once
	listed  func() ([]byte, error) // the response to a poll; formatted once
}

// place is a position in an inbox and the number of entries to read there.
type place struct {
	seen

	limit       int
	withNotices bool
}

// Read implements [participant.Page].
func (p *page) Read() time.Time { return p.began }

// Empty implements [participant.Page].
func (p *page) Empty() bool { return len(p.entries) == 0 }

// Size implements [participant.Page]. It is the length of the entries and notices.
func (p *page) Size() (total int) {
	for _, text := range slices.Concat(p.entries, p.notices) {
		total += len(text)
	}
	return total
}

func (p *page) last(after federation.Cursor) federation.Cursor {
	if len(p.cursors) == 0 {
		return after
	}
	return p.cursors[len(p.cursors)-1]
}

func (p *page) end(after seen) seen {
	after.entries = p.last(after.entries)
	if n := len(p.noticed); n > 0 {
		after.notices = p.noticed[n-1]
	}
	return after
}

func (l *Link) read(ctx context.Context, did federation.DID, at place) (*page, error) {
	p := &page{began: time.Now(), entries: []json.RawMessage{}}
	p.events = sync.OnceValue(func() []byte { return p.writeEvents(at.seen) })
	p.listed = sync.OnceValues(func() ([]byte, error) { return p.writeList(p.last("")) })
	entries, err := l.access.Entries(ctx, did, at.entries, at.limit)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := json.Marshal(l.shapeEntry(ctx, e))
		if err != nil {
			return nil, fmt.Errorf("write entry: %w", err)
		}
		p.entries, p.cursors = append(p.entries, text), append(p.cursors, e.Cursor)
		p.types = append(p.types, typeOf(e))
	}
	if at.withNotices {
		err = l.readNotices(ctx, did, at, p)
	}
	return p, err
}

func (l *Link) readNotices(ctx context.Context, did federation.DID, at place, p *page) error {
	notices, err := l.deps.Record.NoticesTo(ctx, federation.InboxLink, did, at.notices, at.limit)
	if err != nil {
		return err
	}
	for _, n := range notices {
		text, err := json.Marshal(shapeNotice(n))
		if err != nil {
			return fmt.Errorf("write notice: %w", err)
		}
		p.notices, p.noticed = append(p.notices, text), append(p.noticed, n.Cursor)
	}
	return nil
}

// writeEvents numbers the events from the given position.
//
// spec: HTML Living Standard §9.2
func (p *page) writeEvents(id seen) (text []byte) {
	for i, data := range p.entries {
		id.entries = p.cursors[i]
		text = appendEvent(text, id, p.types[i], data)
	}
	for i, data := range p.notices {
		id.notices = p.noticed[i]
		text = appendEvent(text, id, "notice", data)
	}
	return text
}

func appendEvent(text []byte, id seen, kind string, data []byte) []byte {
	return fmt.Appendf(text, "id: %s\nevent: %s\ndata: %s\n\n", id, kind, data)
}

func (p *page) list(after federation.Cursor) ([]byte, error) {
	if len(p.entries) > 0 {
		return p.listed()
	}
	return p.writeList(after)
}

func (p *page) writeList(last federation.Cursor) ([]byte, error) {
	next, err := json.Marshal(last)
	if err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	text := []byte(`{"items":[`)
	for i, entry := range p.entries {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, entry...)
	}
	return append(append(append(text, `],"next_cursor":`...), next...), "}\n"...), nil
}
