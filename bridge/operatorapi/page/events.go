package page

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"baton/federation"
)

// lookEach is how often the pages of an event stream are read again.
const lookEach = time.Second

// maxStreams bounds the open event streams: each reads its page once a second.
const maxStreams = 64

// aliveEach is how often a stream without events says that it lives: proxies close silent ones.
const aliveEach = 20 * time.Second

// events streams the addresses of pages that changed. The parameter "page", which may be repeated,
// is the address of an open page; without it the stream is about all lists.
func (p *Page) events(w http.ResponseWriter, r *http.Request, s session) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		p.fail(w, r, &s, http.StatusServiceUnavailable, "Too many pages are open.")
		return
	}
	watched, ok := watchedPages(r.URL.Query()["page"])
	if !ok {
		p.fail(w, r, &s, http.StatusNotFound, "There is no such page.")
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the stream has no end
	_ = out.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	p.stream(r, w, out, watched)
}

// stream writes an event for each change until the client leaves, its session ends, or the gateway
// stops.
func (p *Page) stream(r *http.Request, w http.ResponseWriter, out *http.ResponseController, watched []*watchedPage) {
	again := time.NewTicker(lookEach)
	defer again.Stop()
	text := "retry: 2000\n\n" // written after the first look, which later ones are compared with
	for silent := time.Duration(0); ; silent += lookEach {
		s, err := p.session(r)
		if errors.Is(err, federation.ErrNotFound) {
			return
		}
		for _, each := range watched {
			if err == nil && each.changed(r.Context(), p, s.token) {
				text += "data: " + each.address.RequestURI() + "\n\n"
			}
		}
		if text == "" && silent >= aliveEach {
			text = ": alive\n\n"
		}
		if text != "" {
			silent = 0
		}
		if _, err := fmt.Fprint(w, text); err != nil || out.Flush() != nil {
			return
		}
		text = ""
		select {
		case <-again.C:
		case <-r.Context().Done():
			return
		case <-p.deps.Ended:
			return
		}
	}
}

// watchedPage is a page of an event stream.
type watchedPage struct {
	address *url.URL
	load    loader
	last    [sha256.Size]byte // sum of what the API answered for it
	read    bool
}

// maxWatched bounds the pages of one stream.
const maxWatched = 16

// watchedPages returns the pages of addresses, or all lists where there is none. It returns false
// for an address that no page has.
func watchedPages(addresses []string) ([]*watchedPage, bool) {
	if len(addresses) == 0 {
		for _, each := range lists() {
			addresses = append(addresses, prefix+each.Name)
		}
	}
	if len(addresses) > maxWatched {
		return nil, false
	}
	var all []*watchedPage
	for _, text := range addresses {
		address, err := url.ParseRequestURI(text)
		if err != nil {
			return nil, false
		}
		load, ok := loaderOf(address)
		if !ok {
			return nil, false
		}
		all = append(all, &watchedPage{address: address, load: load})
	}
	return all, true
}

// changed reports whether the API answers otherwise than the last time. The first time it does not.
// A page that cannot be read now is as it was.
func (w *watchedPage) changed(ctx context.Context, p *Page, token federation.OperatorToken) bool {
	sum := sha256.New()
	if _, err := w.load(p.request(context.WithValue(ctx, sumKey, sum), token, w.address)); err != nil {
		return false
	}
	now := [sha256.Size]byte(sum.Sum(nil))
	changed := w.read && now != w.last
	w.last, w.read = now, true
	return changed
}
