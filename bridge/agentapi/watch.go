package agentapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/participant"
	"baton/federation"
)

// heartbeat is how often the gateway writes to a watcher of an inbox in which nothing
// arrives, and checks its token. Proxies end connections that are silent for a minute.
const heartbeat = 15 * time.Second

// watchPage is how many entries, and how many notices, are read at a time. It bounds the
// memory of one watcher.
const watchPage = 50

// slowest is how long a watcher may take to read what is written. A slower one is
// disconnected, and goes on later from where it was.
const slowest = 30 * time.Second

// watch is a client that watches an inbox. It changes nothing in it.
type watch struct {
	*participant.Subscriber[place, *page]

	link *Link

	seen  seen  // what was written last
	first *page // the page of the start, until it is written
}

// watch subscribes a client to an inbox and its notices after a position. The error is a
// [*bridge.ProblemError] where the limit of watched inboxes is reached. The caller ends the
// subscription with leave.
func (l *Link) watch(ctx context.Context, did federation.DID, after seen) (*watch, error) {
	if !l.enter() {
		return nil, &bridge.ProblemError{
			Status: http.StatusServiceUnavailable, Code: bridge.CodeUnavailable, RetryAfter: int(heartbeat.Seconds()),
			Detail: fmt.Sprintf("%d inboxes are watched, and no more can be: poll with wait, or come again", l.cfg.MaxStreams),
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

// enter counts one more watched inbox, and reports whether there may be one more.
func (l *Link) enter() bool {
	if !l.deps.Streams.Take(l.cfg.MaxStreams) {
		return false
	}
	select {
	case l.streams <- struct{}{}:
		return true
	default: // the API ends
		l.deps.Streams.Leave()
		return false
	}
}

// leave ends the subscription.
func (w *watch) leave() {
	w.Leave()
	w.link.deps.Streams.Leave()
	<-w.link.streams
}

// next reads the page after what was written.
func (w *watch) next(ctx context.Context) (*page, error) {
	return w.Look(ctx, place{w.seen, watchPage, true})
}

// drain passes all unread pages to show, which advances seen, while the session of the client
// lasts. During an outage of the record it returns nil, and the next heartbeat reads again. Entries
// filed after a partial page notify the watcher.
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
