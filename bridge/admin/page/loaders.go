package page

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"baton/bridge/admin"
	"baton/bridge/admin/client"
	"baton/bridge/admin/contract"
	"baton/bridge/route"
	"baton/federation"
)

// loader reads what a page shows.
type loader func(r request) (view, error)

// lists returns the loaders of the pages that are lists, in the order of the navigation.
func lists() []struct {
	Name, Title string
	Load        loader
} {
	return []struct {
		Name, Title string
		Load        loader
	}{
		{"links", "Links", loadLinks},
		{"feeds", "Feeds", loadFeeds},
		{"handoffs", "Handoffs", loadHandoffs},
		{"dead", "Dead letters", loadDead},
		{"peers", "Peers", loadPeers},
		{"keys", "Keys", loadKeys},
		{"policy", "Policy", loadPolicy},
		{"audit", "Audit", loadAudit},
	}
}

// loaderOf returns the loader of an address.
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

// call calls a route of the API.
func call[In, Out any](r request, to route.Route[In, Out], in In) (Out, error) {
	return client.Call(r.ctx, r.api, to, in)
}

// page returns the request for the page of a list that the address names.
func (r request) page() contract.Paging { return contract.Paging{Cursor: r.query.Get("cursor")} }

// watching is page for a list that can be watched.
func (r request) watching() contract.Watching { return contract.Watching{Paging: r.page()} }

// older returns the address of the next page of a list, "" after the last.
func (r request) older(list, cursor string) string {
	if cursor == "" {
		return ""
	}
	query := url.Values{}
	for _, name := range []string{"search", "state"} {
		if value := r.query.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	query.Set("cursor", cursor)
	return prefix + list + "?" + query.Encode()
}

// command returns a command line that prints a list as the page shows it.
func (r request) command(words ...string) string {
	return shell(append([]string{"baton"}, append(words, r.flag("cursor")...)...)...)
}

// flag returns a flag of a command for a parameter of the page, nothing where it is not set.
func (r request) flag(name string) []string {
	if value := r.query.Get(name); value != "" {
		return []string{"--" + name, value}
	}
	return nil
}

// shell returns a command line, with quotes around the words that need them.
func shell(words ...string) string {
	for i, word := range words {
		if !plainWord(word) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// plainWord reports whether a shell reads a word as it stands.
func plainWord(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_./:=@%+,", c)
	})
}

// loadKeys shows the keys of the gateway.
func loadKeys(r request) (view, error) {
	page, err := call(r, contract.ListKeys, r.page())
	t := &table{Caption: "Keys", Columns: []string{"Name", "State", "Key ID", "Identity", "Since", "Until"}, Empty: "There are no keys."}
	for _, k := range page.Items {
		identity := k.PublicKey
		switch {
		case k.DID != "":
			identity = string(k.DID) + " " + string(k.DIDKey)
		case k.EndpointID != "":
			identity = k.EndpointID
		}
		t.Rows = append(t.Rows, row{k.Name + k.KeyID, []cell{words(k.Name), state(k.State), words(k.KeyID), long(identity), r.atText(k.Since), r.atText(k.Until)}})
	}
	return view{Title: "Keys", Sections: []section{{ID: "keys", Table: t, Command: r.command("keys", "list")}}}, err
}

// atText returns a cell of a time that is RFC 3339, empty for none.
func (r request) atText(s string) cell {
	var m contract.Moment
	if err := m.UnmarshalJSON([]byte(strconv.Quote(s))); err != nil {
		return words(s)
	}
	return at(m, r.now)
}

// loadPolicy shows the rules and limits.
func loadPolicy(r request) (view, error) {
	policy, err := call(r, contract.GetPolicy, struct{}{})
	rules := &table{Caption: "Rules", Columns: []string{"#", "Verbs", "Peers", "Senders", "Recipients", "Require", "From"}}
	for i, each := range policy.Rules {
		rules.Rows = append(rules.Rows, row{strconv.Itoa(i), []cell{
			number(i + 1), anyOf(each.Verbs), anyOf(each.Peers), anyOf(each.Senders), anyOf(each.Recipients), state(each.Require), place(each.File, each.Line),
		}})
	}
	limits := &table{Caption: "Limits", Columns: []string{"Key", "Value", "From"}}
	for _, each := range policy.Limits {
		limits.Rows = append(limits.Rows, row{each.Key, []cell{words(each.Key), {Text: plain(each.Value), Class: "num"}, place(each.File, each.Line)}})
	}
	return view{Title: "Policy", Sections: []section{
		{ID: "rules", Table: rules, Command: "baton policy show"}, {ID: "limits", Table: limits, Command: "baton policy show"},
	}}, err
}

// anyOf returns a cell of a list in which no item means any.
func anyOf(items []string) cell {
	if len(items) == 0 {
		return words("any")
	}
	return long(strings.Join(items, ", "))
}

// place returns a cell of the line that a key comes from.
func place(file string, line int) cell {
	if line == 0 {
		return words("default")
	}
	return long(file + ":" + strconv.Itoa(line))
}

// loadAudit shows what operators changed.
func loadAudit(r request) (view, error) {
	page, err := call(r, contract.ListAudit, contract.AuditQuery{Watching: r.watching()})
	t := &table{
		Caption: "Changes", Columns: []string{"Time", "Actor", "Action", "Subject", "Reason"}, Empty: "No operator has changed anything.",
		Older: r.older("audit", page.NextCursor),
	}
	for _, c := range page.Items {
		t.Rows = append(t.Rows, row{c.Time.String() + c.What + c.Subject, []cell{at(c.Time, r.now), words(c.Actor), words(c.What), long(c.Subject), long(c.Reason)}})
	}
	return view{Title: "Audit", Sections: []section{{ID: "audit", Table: t, Command: r.command("audit", "list")}}}, err
}

// contextKey is the type of the keys of this package in contexts.
type contextKey int

const (
	tokenKey contextKey = iota // a [federation.OperatorToken]: the caller of the API
	sumKey                     // a [hash.Hash] that the answers of the API are added to
)

// admit is the [admin.Admission] of requests that the page makes for its sessions.
func admit(r *http.Request, needs federation.Scope) (string, error) {
	token, ok := r.Context().Value(tokenKey).(federation.OperatorToken)
	if !ok {
		return "", errors.New("operator page: request without a session")
	}
	return admin.AdmitToken(token, needs)
}

// inProcess is a [http.RoundTripper] that calls a handler of this process.
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

// answer is a [http.ResponseWriter] that keeps what is written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *answer) Write(text []byte) (int, error) { return a.body.Write(text) }

// request is what a page is loaded for.
type request struct {
	ctx   context.Context //nolint:containedctx // of one HTTP request, which the value belongs to
	api   *client.Client
	token federation.OperatorToken
	query url.Values
	// address is that of the page.
	address string
	now     time.Time
}

// request returns what a page is loaded with for the token of a session.
func (p *Page) request(ctx context.Context, token federation.OperatorToken, page *url.URL) request {
	return request{
		ctx: context.WithValue(ctx, tokenKey, token), api: p.api, token: token, query: page.Query(), address: page.RequestURI(), now: time.Now(),
	}
}

// may reports whether the token of the session has the scope of a route of the API.
func (r request) may(needs federation.Scope) bool { return r.token.Scope.Covers(needs) }
