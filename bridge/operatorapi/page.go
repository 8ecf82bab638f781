package operatorapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// How many items one answer holds.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// watchEvery is how often a list that is watched is read again.
const watchEvery = time.Second

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"` // "" after the last
}

// listing is one list as a request asked for it.
type listing struct {
	// page returns up to limit items after a cursor.
	page func(ctx context.Context, cursor string, limit int) (any, error)
	// news returns a function that tells what is there and was not when it was
	// called before. What it tells first is what page does. It is nil for a list that
	// cannot be watched.
	news func(ctx context.Context, cursor string, limit int) func() ([]any, error)
}

// lister reads what a request asks of a list.
type lister func(r *http.Request) (listing, error)

// list answers with a page, or with lines until the client goes.
func (o *Operator) list(l lister) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		limit, err := parseLimit(query.Get("limit"))
		if err != nil {
			o.tell(w, r, err)
			return
		}
		wanted, err := l(r)
		if err != nil {
			o.tell(w, r, err)
			return
		}
		if query.Has("watch") {
			if wanted.news == nil {
				o.tell(w, r, usage("this list cannot be watched"))
				return
			}
			o.watch(w, r, wanted.news(r.Context(), query.Get("cursor"), limit))
			return
		}
		page, err := wanted.page(r.Context(), query.Get("cursor"), limit)
		if err != nil {
			o.tell(w, r, err)
			return
		}
		o.write(w, r, answer{body: page})
	})
}

func parseLimit(text string) (int, error) {
	if text == "" {
		return DefaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLimit {
		return 0, usage("limit is a number from 1 to " + strconv.Itoa(MaxLimit))
	}
	return n, nil
}

// watch writes a line for each item, what there is and then what is new, until the
// client or the gateway goes, or the client would not be admitted any more.
func (o *Operator) watch(w http.ResponseWriter, r *http.Request, news func() ([]any, error)) {
	items, err := news()
	if err != nil {
		o.tell(w, r, err)
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // it has no end of its own; what takes no deadline has none
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Cache-Control", "no-store")
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		if err := writeLines(w, items); err != nil {
			return // the client is gone
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-again.C:
		case <-r.Context().Done():
			return
		case <-o.deps.Ended:
			return
		}
		err := callerOf(r).still()
		if _, turnedAway := errors.AsType[*ProblemError](err); turnedAway {
			return
		}
		if err == nil {
			items, err = news()
		}
		if err != nil {
			items = nil // what cannot be read now is read the next time
		}
	}
}

func writeLines(w http.ResponseWriter, items []any) error {
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

// known returns an error for a parameter that the list does not have: a filter that
// is misspelt must not answer with everything.
func known(query url.Values, names ...string) error {
	for name := range query {
		switch name {
		case "limit", "cursor", "watch":
			continue
		}
		if !slices.Contains(names, name) {
			return usage("there is no parameter " + strconv.Quote(name))
		}
	}
	return nil
}

// strict reads one JSON object whose members are all known.
func strict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
