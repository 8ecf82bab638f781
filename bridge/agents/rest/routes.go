package rest

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

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// The list of webhooks has no pages.
const maxLimit = 500

type mounted struct {
	route.Description

	answer func(l *Link) route.Answer
}

func serve[In, Made, Out any](r route.Route[In, Out], answer func(l *Link, ctx context.Context, in In) (Made, error)) mounted {
	return mounted{route.Describe(r), func(l *Link) route.Answer {
		return func(_ http.ResponseWriter, request *http.Request) (any, error) {
			in, err := route.Read[In](request, l.deps.HTTP.MaxBodyBytes)
			if err != nil {
				return nil, err
			}
			return answer(l, request.Context(), in)
		}
	}}
}

func change[In any](r route.Route[route.Body[In], route.None], answer func(l *Link, ctx context.Context, in In) error) mounted {
	return serve(r, func(l *Link, ctx context.Context, in route.Body[In]) (route.None, error) {
		body, err := in.Read()
		if err != nil {
			return route.None{}, err
		}
		return route.None{}, answer(l, ctx, body)
	})
}

// write serves a route whose method writes the response itself, unless it returns an error.
func write[In, Out any](r route.Route[In, Out], answer func(l *Link, ctx context.Context, w http.ResponseWriter, in In) error) mounted {
	return mounted{route.Describe(r), func(l *Link) route.Answer {
		return func(w http.ResponseWriter, request *http.Request) (any, error) {
			in, err := route.Read[In](request, l.deps.HTTP.MaxBodyBytes)
			if err != nil {
				return nil, err
			}
			return nil, answer(l, request.Context(), w, in)
		}
	}}
}

// routes are in the order of the API document.
func routes() []mounted {
	return []mounted{
		serve(contract.CreateChallenge, (*Link).createChallenge),
		serve(contract.CreateToken, (*Link).createToken),
		serve(contract.RefreshToken, (*Link).refreshToken),
		serve(contract.RedeemPairing, (*Link).redeemPairing),
		serve(contract.CreatePairingCode, (*Link).createPairingCode),
		serve(contract.ListSessions, (*Link).listSessions),
		serve(contract.DeleteSession, (*Link).deleteSession),

		serve(contract.ListHandoffs, (*Link).listHandoffs),
		serve(contract.CreateHandoff, (*Link).createHandoff),
		serve(contract.CreateMessage, (*Link).createMessage),
		serve(contract.ListContacts, (*Link).listContacts),
		serve(contract.PutContact, (*Link).putContact),
		serve(contract.GetHandoff, (*Link).getHandoff),
		write(contract.GetPassport, (*Link).getPassport),
		serve(contract.CreateStep, (*Link).createStep),
		serve(contract.GetPlace, (*Link).getPlace),

		write(contract.ListInbox, (*Link).listInbox),
		write(contract.StreamInbox, (*Link).streamInbox),
		write(contract.OpenInboxSocket, (*Link).openInboxSocket),
		serve(contract.LeaseInbox, (*Link).leaseInbox),
		change(contract.AckInbox, (*Link).ackInbox),
		change(contract.NackInbox, (*Link).nackInbox),
		change(contract.ExtendInbox, (*Link).extendInbox),
		serve(contract.ListNotices, (*Link).listNotices),

		serve(contract.ListWebhooks, (*Link).listWebhooks),
		serve(contract.CreateWebhook, (*Link).createWebhook),
		serve(contract.GetWebhook, (*Link).getWebhook),
		serve(contract.DeleteWebhook, (*Link).deleteWebhook),
		serve(contract.EnableWebhook, (*Link).enableWebhook),
		serve(contract.ListWebhookDeliveries, (*Link).listWebhookDeliveries),
		serve(contract.RedeliverWebhook, (*Link).redeliverWebhook),

		serve(contract.GetAgent, (*Link).getAgent),
		serve(contract.PutAgent, (*Link).putAgent),
		serve(contract.ListActions, (*Link).listActions),
		serve(contract.GetAction, (*Link).getAction),
	}
}

// Mount implements [bridge.Mounted].
func (l *Link) Mount(mux *http.ServeMux) {
	api, served := http.NewServeMux(), map[string]bool{}
	unserved := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.writeError(w, r, unserved(api, served, r)) })
	for _, each := range routes() {
		handler := each.Handler(each.answer(l), l.writeError)
		pattern := each.Method + " " + Prefix + each.Path
		served[pattern] = true
		api.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r = l.admit(w, r, each.Description); r != nil {
				handler.ServeHTTP(w, r)
			}
		})
	}
	// A client could mistake the header of a stream for the whole response.
	api.Handle("HEAD "+streamPath, unserved)
	api.Handle("HEAD "+socketPath, unserved)
	api.Handle("POST "+Prefix+contract.GetPassport.Path, unserved) // not a verb of a step
	api.Handle("/", unserved)
	mux.Handle(Prefix, l.guard(api))
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		sendDocument(w, "application/json", contract.Document())
	})
	mux.HandleFunc("GET /openapi", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		sendDocument(w, "text/html; charset=utf-8", contract.Page())
	})
}

// unserved returns the error of a request without a route.
//
// spec: RFC 9110 §15.5.6
func unserved(api *http.ServeMux, served map[string]bool, r *http.Request) error {
	e := &methodError{method: r.Method}
	probe := r.WithContext(r.Context())
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe.Method = method
		if _, pattern := api.Handler(probe); served[pattern] {
			e.allowed = append(e.allowed, method)
		}
	}
	if e.allowed == nil {
		return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there is no " + r.URL.Path}
	}
	return e
}

// guard adds the caller, or the reason why the caller is unknown.
func (l *Link) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		l.Hear(now)
		w.Header().Set("Cache-Control", "no-store")
		err := l.access.CheckAddress(r)
		if err == nil {
			err = l.exact(r)
		}
		if err != nil {
			l.writeError(w, r, err)
			return
		}
		who := caller{bearer: r.Header.Get("Authorization"), address: credential.HostOf(r), subnet: credential.AddressOf(r), control: http.NewResponseController(w)}
		who.Caller, who.denied = l.access.Authenticate(r, now)
		who.upgrade = func(w http.ResponseWriter) (*websocket.Conn, error) { return upgrade(w, r) }
		ctx := bridge.WithSubnet(r.Context(), credential.AddressOf(r))
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, who)))
	})
}

// admit returns nil if it has answered a request that violates the contract.
func (l *Link) admit(w http.ResponseWriter, r *http.Request, d route.Description) *http.Request {
	who := callerOf(r.Context())
	var err error
	if !d.Public {
		err = who.denied
	}
	if err == nil {
		err = check(r, d)
	}
	if err == nil {
		err = l.count(w, r, who, time.Now())
	}
	if err == nil {
		err = checkRepeated(r, d)
	}
	if err != nil {
		l.writeError(w, r, err)
		return nil
	}
	return r
}

// Requests without authentication count against the address of the caller.
const authPrefix = Prefix + "auth/"

// count rate-limits callers without a DID by address.
func (l *Link) count(w http.ResponseWriter, r *http.Request, who caller, now time.Time) error {
	if !strings.HasPrefix(r.URL.Path, authPrefix) {
		if who.DID != "" {
			l.deps.Rates.Left(who.DID, now).WriteHeader(w.Header())
		}
		return nil
	}
	return l.access.TakeLogin(w, r, now)
}

// exact rejects repeated or misspelt members.
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

func sendDocument(w http.ResponseWriter, mediaType string, text []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) // the client may be gone
}
