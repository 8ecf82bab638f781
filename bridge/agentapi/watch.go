package agentapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/bridge/operatorapi"
	"baton/federation"
)

// heartbeat is how often somebody who watches an inbox in which nothing comes is told that
// it is there, and is let in anew. Proxies end what is silent for a minute.
const heartbeat = 15 * time.Second

// watchPage is how many entries, and how many notices, are read at a time, and so what one
// watcher may hold.
const watchPage = 50

// slowest is how long a watcher may take to take what is written, and half of it is how long
// they may at least. One that takes longer comes again, from where it was.
const slowest = 30 * time.Second

// watch is an inbox that somebody watches. Looking changes nothing in it.
type watch struct {
	*seat

	seen  seen  // what was shown last
	first *page // what was there at the start, until it was shown
}

// watch begins to watch what is in an inbox, and the notices, after what was seen, if one
// more may. Whoever watches is woken as one in an audience, and leaves in the end.
func (l *Link) watch(ctx context.Context, did federation.DID, after seen, wake func()) (*watch, error) {
	select {
	case l.streams <- struct{}{}:
	default:
		return nil, &operatorapi.ProblemError{
			Status: http.StatusServiceUnavailable, Code: operatorapi.CodeUnavailable, RetryAfter: int(heartbeat.Seconds()),
			Detail: fmt.Sprintf("%d inboxes are watched, and no more can be: poll with wait, or come again", l.cfg.MaxStreams),
		}
	}
	w := &watch{seat: l.sit(ctx, did, wake), seen: after} // it sits before the first look, so that nothing comes in between
	var err error
	if w.first, err = w.next(ctx); err != nil {
		w.leave()
		return nil, err
	}
	return w, nil
}

// leave ends the watching.
func (w *watch) leave() {
	w.seat.leave()
	<-w.link.streams
}

// next reads what comes after what was shown.
func (w *watch) next(ctx context.Context) (*page, error) {
	return w.look(ctx, place{w.seen, watchPage, true})
}

// drain shows all there is, from what is there at the start. What cannot be read now is
// read the next time, and what is filed after a page that is not full wakes the watcher
// again.
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
		if err := show(ctx, p); err != nil || max(len(p.entries), len(p.notices)) < watchPage {
			return err
		}
	}
}
