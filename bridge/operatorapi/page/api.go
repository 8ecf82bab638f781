package page

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/client"
	"baton/federation"
)

// contextKey is the type of the keys of this package in contexts.
type contextKey int

const (
	tokenKey contextKey = iota // a [federation.OperatorToken]: the caller of the API
	sumKey                     // a [hash.Hash] that the answers of the API are added to
)

// admit is the [operatorapi.Admission] of requests that the page makes for its sessions.
func admit(r *http.Request, needs federation.Scope) (string, error) {
	token, ok := r.Context().Value(tokenKey).(federation.OperatorToken)
	if !ok {
		return "", errors.New("operator page: request without a session")
	}
	return operatorapi.AdmitToken(token, needs)
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
