package operatorapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/bridge/route"
)

// How many items one answer holds.
const (
	DefaultLimit = 50
	MaxLimit     = contract.MaxLimit
)

// watchEvery is how often a watched list is read again.
const watchEvery = time.Second

// listing is one list as a request asked for it.
type listing[T any] struct {
	// page returns up to limit items after a cursor.
	page func(ctx context.Context, cursor string, limit int) (Page[T], error)
	// news returns a function that returns the items that are new or changed since its last
	// call. The first call returns the items of page. It is nil for a list that cannot be
	// watched.
	news func(ctx context.Context, cursor string, limit int) func() ([]T, error)
}

// list serves a route whose answer is a page, or lines until the client leaves.
func list[In contract.List, T any](r route.Route[In, Page[T]], open func(o *Operator, ctx context.Context, in In) (listing[T], error)) mounted {
	return mounted{route.Describe(r), func(o *Operator) route.Answer {
		return func(w http.ResponseWriter, request *http.Request) (any, error) {
			in, err := route.Read[In](request)
			if err != nil {
				return nil, err
			}
			l, err := open(o, request.Context(), in)
			if err != nil {
				return nil, err
			}
			page, watched := in.List()
			if watched {
				return nil, watch(request.Context(), o, w, l.news(request.Context(), page.Cursor, limitOf(page)))
			}
			return l.page(request.Context(), page.Cursor, limitOf(page))
		}
	}}
}

// limitOf returns the limit of a request, or the default.
func limitOf(page contract.Paging) int {
	if page.Limit == nil {
		return DefaultLimit
	}
	return *page.Limit
}

// watch writes a line for each item of the page and then for each new one, until the client
// leaves or is not admitted any more, or the gateway stops. The error is that of the first page.
func watch[T any](ctx context.Context, o *Operator, w http.ResponseWriter, news func() ([]T, error)) error {
	items, err := news()
	if err != nil {
		return err
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the answer has no end; what takes no deadline has none
	_ = out.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/jsonl")
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		if err := writeLines(w, items); err != nil {
			return nil // the client has left
		}
		if err := out.Flush(); err != nil {
			return nil // the client has left
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		case <-o.deps.Ended:
			return nil
		}
		err := callerOf(ctx).still()
		if _, turnedAway := errors.AsType[*ProblemError](err); turnedAway {
			return nil
		}
		if err == nil {
			items, err = news()
		}
		if err != nil {
			items = nil // the next look reads them
		}
	}
}

func writeLines[T any](w http.ResponseWriter, items []T) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, item := range items {
		if err := encoder.Encode(item); err != nil {
			return err
		}
	}
	_, err := w.Write(lines.Bytes())
	return err
}
