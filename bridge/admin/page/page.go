// Package page is the operator page: HTML below /ui/ on the listener of operators, based on the
// operator API. It has no rules of its own. A page shows API answers for the session's token, and
// an action is an API request, first as a dry run.
//
// An operator logs in with an operator token. The browser keeps a session cookie; the process keeps
// only the digests of the cookie and of the token, in memory. Each request reads the token again,
// so that a session ends with its token. Everything works without JavaScript; the script replaces
// the rows of an open page when the page changes.
//
// A [Page] is safe for concurrent use.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/operators"
)

const prefix = "/ui/"

const first = prefix + "links"

// Deps are the dependencies of the page.
type Deps struct {
	Home federation.HomeID // shown in the head of each page
	// Mount registers the operator API with an admission.
	Mount  func(mux *http.ServeMux, admit admin.Admission)
	Tokens *operators.Operators
	Check  *admin.TokenCheck
	Log    *slog.Logger
	Ended  <-chan struct{} // closed when the gateway stops, which ends all event streams
}

// Page is the operator page.
type Page struct {
	deps     Deps
	api      *client.Client
	sessions *sessions
	files    files
	streams  chan struct{} // holds a token for each open event stream
}

// New returns the page of a gateway. It does no I/O.
func New(d Deps) *Page {
	inner := http.NewServeMux()
	d.Mount(inner, admit)
	return &Page{deps: d, api: client.New("http://gateway", "", inProcess{inner}), sessions: &sessions{all: map[[32]byte]*storedSession{}}, files: readFiles(), streams: make(chan struct{}, maxStreams)}
}

// Mount registers the routes.
func (p *Page) Mount(mux *http.ServeMux) {
	redirect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, prefix, http.StatusSeeOther) })
	mux.Handle("GET /{$}", p.guarded(redirect))
	mux.Handle("GET /ui", p.guarded(redirect))
	routes := http.NewServeMux()
	routes.HandleFunc("GET /ui/login", p.loginForm)
	routes.HandleFunc("POST /ui/login", p.login)
	routes.Handle("POST /ui/logout", p.changing(p.logout))
	all := map[string]http.HandlerFunc{}
	for name, each := range p.files.all {
		all[name] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", each.mediaType)
			_, _ = w.Write(each.text) // the client is gone
		}
		all[each.hashed] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			all[name](w, r)
		}
	}
	for name, serve := range all {
		routes.HandleFunc("GET "+prefix+name, serve)
	}
	routes.Handle("GET /ui/{$}", p.reading(func(w http.ResponseWriter, r *http.Request, _ session) {
		http.Redirect(w, r, first, http.StatusSeeOther)
	}))
	routes.Handle("GET /ui/events", p.reading(p.events))
	routes.Handle("GET /ui/handoffs/{id}/passport", p.reading(p.passport))
	routes.Handle("GET /ui/act/{list}/{name}/{verb}", p.reading(p.confirm))
	routes.Handle("POST /ui/act/{list}/{name}/{verb}", p.changing(p.act))
	routes.Handle("GET "+PairPath, p.reading(p.askPair))
	routes.Handle("POST "+PairPath, p.changing(p.pair))
	routes.Handle("GET /ui/", p.reading(p.show))
	routes.Handle("POST /ui/", p.changing(func(w http.ResponseWriter, r *http.Request, s session) {
		p.fail(w, r, &s, http.StatusNotFound, "This address does not accept forms.")
	}))
	mux.Handle(prefix, p.guarded(routes))
}

func (p *Page) show(w http.ResponseWriter, r *http.Request, s session) {
	load, ok := loaderOf(r.URL)
	if !ok {
		p.fail(w, r, &s, http.StatusNotFound, "There is no such page.")
		return
	}
	shown, err := load(p.request(r.Context(), s.token, r.URL))
	if err != nil {
		p.failWith(w, r, &s, err)
		return
	}
	p.render(w, r, http.StatusOK, &s, shown)
}

//go:embed files
var embedded embed.FS

type file struct {
	text      []byte
	mediaType string
	hashed    string // name with the hash of the content, which browsers may cache forever
}

type files struct {
	all  map[string]file
	page *template.Template
}

// An invalid template is a bug of the program.
func readFiles() files {
	f := files{all: map[string]file{}, page: template.Must(template.ParseFS(embedded, "files/*.html"))}
	for name, mediaType := range map[string]string{"baton.js": "text/javascript; charset=utf-8", "baton.css": "text/css; charset=utf-8", "baton.svg": "image/svg+xml"} {
		text, err := embedded.ReadFile("files/" + name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		extension := path.Ext(name)
		f.all[name] = file{text, mediaType, strings.TrimSuffix(name, extension) + "-" + hex.EncodeToString(sum[:8]) + extension}
	}
	return f
}

type layout struct {
	view

	Home          federation.HomeID
	Script, Style string
	Icon          string
	Address       string // for its events; "" if nothing ever changes
	CSRF          string // "" without a session
	Token         federation.OperatorToken
	Nav           []navLink
}

type navLink struct {
	Title, Href, Name string
	Count             string // items that need an operator; may be ""
	Current           bool
}

// counts returns, for each page, the number of items that need an operator. It returns none if the
// record cannot be read now.
func (r request) counts() map[string]string {
	counts := map[string]string{}
	if t, err := call(r, admin.CountTroubles, route.None{}); err == nil {
		for page, n := range map[string]int{"links": t.Links, "feeds": t.Waiting, "dead": t.Dead} {
			if n > 0 {
				counts[page] = strconv.Itoa(n)
			}
		}
	}
	return counts
}

// The session may be nil.
func (p *Page) render(w http.ResponseWriter, r *http.Request, status int, s *session, v view) {
	l := layout{view: v, Home: p.deps.Home, Script: prefix + p.files.all["baton.js"].hashed, Style: prefix + p.files.all["baton.css"].hashed, Icon: prefix + p.files.all["baton.svg"].hashed}
	if s != nil {
		l.CSRF, l.Token = s.csrf, s.token
		counts := p.request(r.Context(), s.token, r.URL).counts()
		for _, each := range lists() {
			l.Nav = append(l.Nav, navLink{each.Title, prefix + each.Name, each.Name, counts[each.Name], each.Title == v.Title})
		}
		if v.Confirm == nil && v.Alert == "" {
			l.Status, l.Address = p.sessions.takeNotice(s.id), r.URL.RequestURI()
		}
	}
	var text bytes.Buffer
	if err := p.files.page.ExecuteTemplate(&text, "page.html", l); err != nil {
		p.deps.Log.LogAttrs(r.Context(), slog.LevelError, "operator page not written", slog.String("network", "operator"), slog.Any("err", err))
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // the client is gone
}

const lookEach = time.Second

// maxStreams bounds the open event streams. Each reads its page once a second.
const maxStreams = 64

// aliveEach is the heartbeat interval of a quiet stream. Proxies close silent streams.
const aliveEach = 20 * time.Second

// events streams the addresses of changed pages. The parameter "page", which may be repeated, is
// the address of an open page. Without it, all lists are watched.
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

func (p *Page) stream(r *http.Request, w http.ResponseWriter, out *http.ResponseController, watched []*watchedPage) {
	again := time.NewTicker(lookEach)
	defer again.Stop()
	text := "retry: 2000\n\n" // written after the first read, the baseline for later reads
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

type watchedPage struct {
	address *url.URL
	load    loader
	last    [sha256.Size]byte // hash of the API's last answer
	read    bool
}

const maxWatched = 16

// watchedPages returns the pages with these addresses, or all lists without addresses. It
// returns false for an unknown address.
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

// changed is false on the first call and after an error.
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
