// Package page is the operator page: HTML below /ui/ on the listener of operators, over the operator
// API. It has no rules of its own: a page shows what the API answers to the token of the session,
// and an action is a request to the API, first as a dry run.
//
// An operator logs in with an operator token. The browser keeps a session cookie; the process keeps
// the digests of the cookie and of the token, in memory. Each request reads the token again, so
// that a session ends with its token. Everything works without JavaScript; the script
// replaces the rows of an open page when the page changes.
//
// The handlers may be called concurrently.
package page

import (
	"log/slog"
	"net/http"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/client"
	"baton/federation"
	"baton/federation/store/operators"
)

// prefix is the path of everything but the redirect of "/".
const prefix = "/ui/"

// first is the page that "/" and "/ui/" lead to.
const first = prefix + "links"

// Deps is what the page works with.
type Deps struct {
	Home federation.HomeID // told in the head of each page
	// Mount registers the operator API for the callers that an admission admits.
	Mount  func(mux *http.ServeMux, admit operatorapi.Admission)
	Tokens *operators.Operators
	Check  *operatorapi.TokenCheck // of tokens that log in
	Log    *slog.Logger
	Ended  <-chan struct{} // closed when the gateway stops, which ends all event streams
}

// Page is the operator page. Make one with [New].
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
	return &Page{deps: d, api: client.New("http://gateway", "", inProcess{inner}), sessions: newSessions(), files: readFiles(), streams: make(chan struct{}, maxStreams)}
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
	for name, serve := range p.files.routes() {
		routes.HandleFunc("GET "+prefix+name, serve)
	}
	routes.Handle("GET /ui/{$}", p.reading(func(w http.ResponseWriter, r *http.Request, _ session) {
		http.Redirect(w, r, first, http.StatusSeeOther)
	}))
	routes.Handle("GET /ui/events", p.reading(p.events))
	routes.Handle("GET /ui/handoffs/{id}/passport", p.reading(p.passport))
	routes.Handle("GET /ui/act/{list}/{name}/{verb}", p.reading(p.confirm))
	routes.Handle("POST /ui/act/{list}/{name}/{verb}", p.changing(p.act))
	routes.Handle("GET /ui/", p.reading(p.show))
	routes.Handle("POST /ui/", p.changing(func(w http.ResponseWriter, r *http.Request, s session) {
		p.fail(w, r, &s, http.StatusNotFound, "This address takes no form.")
	}))
	mux.Handle(prefix, p.guarded(routes))
}

// show serves a list or the details of one item.
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
