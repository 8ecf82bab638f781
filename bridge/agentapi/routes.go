package agentapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/bridge/credential"
	"baton/federation"
)

// How many items a list has at most where the request names no limit, and ever.
const (
	defaultLimit = 50
	maxLimit     = 500
)

// Mount implements [bridge.Mounted].
func (l *Link) Mount(mux *http.ServeMux) {
	api := http.NewServeMux()
	strict := contract.NewStrictHandlerWithOptions(l, nil, contract.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  func(w http.ResponseWriter, r *http.Request, err error) { l.tell(w, r, usage(err.Error())) },
		ResponseErrorHandlerFunc: l.tell,
	})
	contract.HandlerWithOptions(strict, contract.StdHTTPServerOptions{
		BaseRouter:       api,
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { l.tell(w, r, usage(err.Error())) },
	})
	mux.Handle(Prefix, l.guard(api))
	mux.HandleFunc("GET /openapi.json", l.getContract)
	mux.HandleFunc("GET /openapi", l.getPage)
}

// guard lets requests through that are what the contract says, with their caller.
func (l *Link) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r = l.admit(w, r); r != nil {
			next.ServeHTTP(w, r)
		}
	})
}

// admit returns a request with its caller, or answers it and returns nil.
func (l *Link) admit(w http.ResponseWriter, r *http.Request) *http.Request {
	now := time.Now()
	l.Hear(now)
	w.Header().Set("Cache-Control", "no-store")
	err := l.access.CheckAddress(r)
	var who caller
	if err == nil {
		who, err = l.callerOf(r, now)
	}
	if err == nil {
		err = l.count(w, r, who, now)
	}
	if err != nil {
		l.tell(w, r, err)
		return nil
	}
	who.control = http.NewResponseController(w)
	ctx := bridge.WithSubnet(r.Context(), credential.AddressOf(r))
	return r.WithContext(context.WithValue(ctx, callerKey{}, who))
}

// callerOf returns the caller of a request that follows the contract.
func (l *Link) callerOf(r *http.Request, now time.Time) (caller, error) {
	check, err := l.checker()
	if err != nil {
		return caller{}, err
	}
	if err := l.exact(r); err != nil {
		return caller{}, err
	}
	var who caller
	var denied error
	who.Caller, denied = l.access.Authenticate(r, now)
	if err := check.request(r, denied); err != nil {
		return caller{}, err
	}
	who.bearer, who.address = r.Header.Get("Authorization"), credential.HostOf(r)
	if r.URL.Path == socketPath {
		who.upgrade = func(w http.ResponseWriter) (*websocket.Conn, error) { return upgrade(w, r) }
	}
	return who, nil
}

// authPrefix is where callers have shown nothing yet: what they ask is counted for their
// address.
const authPrefix = Prefix + "auth/"

// count tells the caller how many steps it has left. It limits the requests of callers
// without a DID by their address.
func (l *Link) count(w http.ResponseWriter, r *http.Request, who caller, now time.Time) error {
	if !strings.HasPrefix(r.URL.Path, authPrefix) {
		if who.DID != "" {
			l.deps.Rates.Left(who.DID, now).WriteHeader(w.Header())
		}
		return nil
	}
	return l.access.TakeLogin(w, r, now)
}

// exact reads the body of a request, and holds JSON to one reading: no member twice,
// none in another spelling.
func (l *Link) exact(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, l.deps.HTTP.MaxBodyBytes+1))
	switch {
	case err != nil:
		return usage("the body ended too early")
	case int64(len(body)) > l.deps.HTTP.MaxBodyBytes:
		return &bridge.ProblemError{
			Status: http.StatusRequestEntityTooLarge, Code: bridge.CodeUsage,
			Detail: fmt.Sprintf("a body is at most %d bytes", l.deps.HTTP.MaxBodyBytes),
		}
	case len(body) > 0:
		if err := federation.ExactJSON(body); err != nil {
			return usage("the body is not acceptable JSON: " + err.Error())
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// getContract answers GET /openapi.json.
func (l *Link) getContract(w http.ResponseWriter, r *http.Request) {
	text, err := contract.GetSpecJSON()
	if err != nil {
		l.tell(w, r, err)
		return
	}
	l.serve(w, r, "application/json", text)
}

// getPage answers GET /openapi.
func (l *Link) getPage(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	if err := contract.WritePage(&page); err != nil {
		l.tell(w, r, err)
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	l.serve(w, r, "text/html; charset=utf-8", page.Bytes())
}

func (*Link) serve(w http.ResponseWriter, _ *http.Request, mediaType string, text []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) // the client is gone
}
