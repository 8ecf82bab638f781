package page

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

type loader func(r request) (view, error)

func lists() []struct {
	Name, Title string
	Load        loader
} {
	return []struct {
		Name, Title string
		Load        loader
	}{
		{"overview", "Overview", loadOverview},
		{"links", "Links", loadLinks},
		{"feeds", "Feeds", loadFeeds},
		{"handoffs", "Handoffs", loadHandoffs},
		{"dead", "Dead letters", loadDead},
		{"peers", "Peers", loadPeers},
		{"keys", "Keys", loadKeys},
		{"policy", "Policy", loadPolicy},
		{"audit", "Audit", loadAudit},
		{"webhooks", "Webhooks", loadWebhooks},
		{"blocks", "Blocks", loadBlocks},
		{"bindings", "Bindings", loadBindings},
		{"sessions", "Sessions", loadSessions},
		{"top", "Top", loadTop},
	}
}

func loaderOf(u *url.URL) (loader, bool) {
	name, item, isItem := strings.Cut(strings.TrimPrefix(u.EscapedPath(), prefix), "/")
	if !isItem {
		for _, each := range lists() {
			if each.Name == name {
				return each.Load, true
			}
		}
		return nil, false
	}
	id, err := url.PathUnescape(item)
	if err != nil || id == "" || strings.Contains(item, "/") {
		return nil, false
	}
	load := map[string]func(r request, id string) (view, error){"links": loadLink, "handoffs": loadHandoff, "dead": loadLetter}[name]
	return func(r request) (view, error) { return load(r, id) }, load != nil
}

func call[In, Out any](r request, to route.Route[In, Out], in In) (Out, error) {
	return client.Call(r.ctx, r.api, to, in)
}

func (r request) page() admin.Paging { return admin.Paging{Cursor: r.query.Get("cursor")} }

func (r request) watching() admin.Watching { return admin.Watching{Paging: r.page()} }

// older returns the address of the next part of a list, or "" after the last. The parameter holds
// the position.
func (r request) older(parameter, cursor string) string {
	if cursor == "" {
		return ""
	}
	query := url.Values{parameter: {cursor}}
	for _, name := range []string{"search", "state", "link", "peer", "older", "reason", "did"} {
		if value := r.query.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	address, _, _ := strings.Cut(r.address, "?")
	return address + "?" + query.Encode()
}

func (r request) flag(name string) []string {
	if value := r.query.Get(name); value != "" {
		return []string{"--" + name, value}
	}
	return nil
}

func loadWebhooks(r request) (view, error) {
	page, err := call(r, admin.ListWebhooks, admin.WebhookQuery{Paging: r.page()})
	l := list[admin.Webhook]{
		Table: render.Webhooks, id: "webhooks", page: page, cursor: "cursor", needs: admin.ChangeWebhook.Scope,
		acts: func(h admin.Webhook) []link {
			if h.Disabled.IsZero() {
				return []link{r.act("webhooks", h.ID, "redeliver")}
			}
			return []link{r.act("webhooks", h.ID, "enable")}
		},
	}
	return view{Title: "Webhooks", Sections: []section{l.section(r)}}, err
}

func loadBlocks(r request) (view, error) {
	page, err := call(r, admin.ListBlocks, r.page())
	l := list[admin.Block]{
		Table: render.Blocks, id: "blocks", page: page, cursor: "cursor", needs: admin.Unblock.Scope,
		acts: func(b admin.Block) []link { return []link{r.act("blocks", b.What, "remove")} },
	}
	return view{Title: "Blocks", Sections: []section{l.section(r)}}, err
}

func loadBindings(r request) (view, error) {
	page, err := call(r, admin.ListBindings, r.page())
	l := list[admin.Binding]{Table: render.Bindings, id: "bindings", page: page, cursor: "cursor"}
	shown := l.section(r)
	if r.may(admin.CreatePairingCode.Scope) {
		shown.Intro, shown.Actions = "A pairing code logs in an agent host as a participant.", []link{{Verb: "Pair", Name: "a host", Href: PairPath}}
	}
	return view{Title: "Bindings", Sections: []section{shown}}, err
}

func loadSessions(r request) (view, error) {
	page, err := call(r, admin.ListSessions, admin.SessionQuery{DID: r.query.Get("did"), Paging: r.page()})
	l := list[admin.Session]{
		Table: render.Sessions, id: "sessions", page: page, cursor: "cursor", flags: r.flag("did"), needs: admin.EndSessions.Scope,
		acts: func(s admin.Session) []link { return []link{r.act("sessions", s.ID, "end")} },
	}
	return view{Title: "Sessions", Filter: r.filter("did", "DID"), Sections: []section{l.section(r)}}, err
}

func loadTop(r request) (view, error) {
	v := view{Title: "Top"}
	for _, top := range []struct{ by, caption string }{{"did", "Top by DID"}, {"address", "Top by address"}, {"link", "Top by link"}} {
		page, err := call(r, admin.ListTop, admin.TopQuery{By: top.by})
		if err != nil {
			return view{}, err
		}
		l := list[admin.Sender]{Table: render.Senders, id: "top-" + top.by, page: page, flags: []string{"--by", top.by}}
		l.Caption = top.caption
		v.Sections = append(v.Sections, l.section(r))
	}
	return v, nil
}

func loadKeys(r request) (view, error) {
	page, err := call(r, admin.ListKeys, r.page())
	return view{Title: "Keys", Sections: []section{list[admin.Key]{Table: render.Keys, id: "keys", page: page, cursor: "cursor"}.section(r)}}, err
}

func loadPolicy(r request) (view, error) {
	policy, err := call(r, admin.GetPolicy, struct{}{})
	rules, limits := admin.Page[render.Rule]{Items: render.NumberRules(policy)}, admin.Page[admin.PolicyLimit]{Items: policy.Limits}
	return view{Title: "Policy", Sections: []section{
		list[render.Rule]{Table: render.Rules, id: "rules", page: rules}.section(r),
		list[admin.PolicyLimit]{Table: render.Limits, id: "limits", page: limits}.section(r),
	}}, err
}

func loadAudit(r request) (view, error) {
	page, err := call(r, admin.ListAudit, admin.AuditQuery{Watching: r.watching()})
	return view{Title: "Audit", Sections: []section{list[admin.Change]{Table: render.Changes, id: "audit", page: page, cursor: "cursor"}.section(r)}}, err
}

type contextKey int

const (
	tokenKey contextKey = iota // a [federation.OperatorToken]: the caller of the API
	sumKey                     // a [hash.Hash] that the answers of the API are added to
)

// admit is the [admin.Admission] of the page's requests for its sessions.
func admit(r *http.Request, needs federation.Scope) (string, error) {
	token, ok := r.Context().Value(tokenKey).(federation.OperatorToken)
	if !ok {
		return "", errors.New("operator page: request without a session")
	}
	return admin.AdmitToken(token, needs)
}

type inProcess struct{ api http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	request := r.Clone(ctx)
	if request.Body == nil {
		request.Body = http.NoBody
	}
	defer request.Body.Close()
	w := &answer{header: http.Header{}, status: http.StatusOK}
	t.api.ServeHTTP(w, request)
	if sum, ok := ctx.Value(sumKey).(hash.Hash); ok {
		_, _ = sum.Write(w.body.Bytes()) // a hash takes all
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

func (a *answer) Write(text []byte) (int, error) { return a.body.Write(text) }

type request struct {
	ctx     context.Context //nolint:containedctx // of one HTTP request, which the value belongs to
	api     *client.Client
	token   federation.OperatorToken
	query   url.Values
	address string
	now     time.Time
}

func (p *Page) request(ctx context.Context, token federation.OperatorToken, page *url.URL) request {
	return request{
		ctx: context.WithValue(ctx, tokenKey, token), api: p.api, token: token, query: page.Query(), address: page.RequestURI(), now: time.Now(),
	}
}

func (r request) may(needs federation.Scope) bool { return r.token.Scope.Covers(needs) }
