package airc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

// A client that writes its whole request before it reads would otherwise miss the response.
const drainBytes = 4 << 20

type answer struct {
	status int
	body   any  // a [raw] is written unchanged
	keep   bool // immutable; clients may cache it
	// after runs after the response was sent. It may be nil.
	after func(ctx context.Context) error
}

// raw is JSON that must reach the client byte for byte.
type raw []byte

type call struct {
	*http.Request

	agent   agents.Agent
	session federation.Session
	denied  error // why the access token is missing or invalid, or nil
}

func (c *call) caller() (agents.Agent, error) { return c.agent, c.denied }

type endpoint func(c *call) (answer, error)

// Mount implements [bridge.Mounted]. Every other path and method of the mux is answered in JSON too.
//
// spec: airc-v0.1.1 §11.1
func (l *Link) Mount(mux *http.ServeMux) {
	l.mount(mux, map[string]endpoint{
		"GET /.well-known/airc/registry.json":    l.getRegistry,
		"GET /evidence/{sha256}":                 l.getEvidence,
		"GET /airc/{registry}/{handle}/did.json": l.getAgentDocument,
	})
	for dialect, mount := range map[string]func(*http.ServeMux){
		peers.DialectD1: l.mountSigned, peers.DialectD2: l.mountFederation, peers.DialectD3: l.mountDeployed,
	} {
		if slices.Contains(l.cfg.Dialects, dialect) {
			mount(mux)
		}
	}
	mux.Handle("/", l.serve("/", func(c *call) (answer, error) {
		if allow := allowed(mux, c.Request); allow != "" {
			return answer{}, &wire.ProblemError{Code: wire.CodeMethodNotAllowed, Message: "this path takes " + allow, Allow: allow}
		}
		return answer{}, wire.Refuse(wire.CodeNotFound, "there is nothing here")
	}))
}

// spec: airc-v0.1.1 §11.1
func (l *Link) mountSigned(mux *http.ServeMux) {
	l.mount(mux, map[string]endpoint{
		"POST /register/challenge":                l.postChallenge,
		"POST /register":                          l.postRegister,
		"POST /auth/refresh":                      l.postRefresh,
		"POST /auth/logout":                       l.postLogout,
		"GET /auth/sessions":                      l.getSessions,
		"DELETE /auth/sessions":                   l.deleteSessions,
		"DELETE /auth/sessions/{id}":              l.deleteSession,
		"GET /identity/{handle}":                  l.getIdentity,
		"POST /identity/rotate":                   l.postRotate,
		"POST /identity/revoke":                   l.postRevoke,
		"POST /messages":                          l.postMessage,
		"POST /blob":                              l.postBlob,
		"GET /messages/inbox":                     l.getInbox,
		"GET /messages/thread/{handle}":           l.getThread,
		"POST /messages/{id}/ack":                 l.postAck,
		"DELETE /messages/{id}":                   l.deleteMessage,
		"POST /consent":                           l.postConsent,
		"GET /consent":                            l.getConsent,
		"POST /presence":                          l.postPresence,
		"GET /presence":                           l.getPresence,
		"GET /.well-known/airc/identity/{handle}": l.getIdentity,
	})
}

func (l *Link) mount(mux *http.ServeMux, endpoints map[string]endpoint) {
	for pattern, serve := range endpoints {
		mux.Handle(pattern, l.serve(pattern, serve))
	}
}

func allowed(mux *http.ServeMux, r *http.Request) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.WithContext(r.Context())
		probe.Method = method
		if _, pattern := mux.Handler(probe); pattern != "/" {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

func (l *Link) serve(route string, e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.Hear(time.Now())
		ctx := bridge.WithSubnet(r.Context(), credential.AddressOf(r))
		c := &call{Request: r.WithContext(ctx)}
		c.agent, c.session, c.denied = l.authenticate(r)
		var a answer
		err := l.checkCaller(ctx, c)
		if err == nil {
			a, err = e(c)
		}
		var text []byte
		if err == nil {
			text, err = a.text()
		}
		if err != nil {
			f := wire.Render(err)
			if deployed(r) {
				f.Success = new(false)
			}
			l.logRejected(r.Context(), route, f, err)
			f.WriteHeader(w.Header())
			a = answer{status: f.Status, body: f}
			text, _ = a.text() // strings and times cannot fail
		}
		l.allowance(c, time.Now()).WriteHeader(w.Header())
		w.Header().Set("Content-Type", "application/json")
		if a.keep {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			w.Header().Set("Cache-Control", "no-store")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(a.status)
		_, _ = w.Write(text)
		if err == nil && a.after != nil {
			_ = http.NewResponseController(w).Flush()
			ctx := context.WithoutCancel(r.Context())
			if err := a.after(ctx); err != nil {
				l.deps.Log.LogAttrs(ctx, slog.LevelError, "request not finished", slog.String("network", wire.Network),
					slog.String("link", wire.Network), slog.String("route", route), slog.Any("err", err))
			}
		}
	})
}

func (a answer) text() ([]byte, error) {
	if text, ok := a.body.(raw); ok {
		return text, nil
	}
	text, err := wire.Marshal(a.body)
	if err != nil {
		return nil, fmt.Errorf("write answer: %w", err)
	}
	return append(text, '\n'), nil
}

func (l *Link) readBody(c *call) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(c.Body, l.deps.HTTP.MaxBodyBytes+1))
	if err != nil {
		return nil, &wire.ProblemError{Code: wire.CodeBadRequest, Message: "the body ended too early", Unreadable: "cut"}
	}
	if int64(len(body)) > l.deps.HTTP.MaxBodyBytes {
		_, _ = io.CopyN(io.Discard, c.Body, drainBytes)
		return nil, &wire.ProblemError{
			Code: wire.CodePayloadTooLarge, Unreadable: "size",
			Message: "a body is at most " + strconv.FormatInt(l.deps.HTTP.MaxBodyBytes, 10) + " bytes",
		}
	}
	return body, nil
}

func (l *Link) readObject(c *call) (*wire.Object, error) {
	o, _, err := l.readSigned(c)
	return o, err
}

func (l *Link) readSigned(c *call) (o *wire.Object, raw []byte, err error) {
	if raw, err = l.readBody(c); err == nil {
		o, err = wire.ParseObject(raw)
	}
	return o, raw, err
}

// check treats the bucket as one period's worth.
func check(a bridge.Allowance, period time.Duration) error {
	if a.Limit == 0 || a.Left > 0 {
		return nil
	}
	return wire.TooMany(period / time.Duration(a.Limit))
}

// mayWrite rejects a message before it is read and verified.
func (l *Link) mayWrite(ctx context.Context, did federation.DID, now time.Time) error {
	if err := check(l.deps.Left(did, now), time.Minute); err != nil {
		return err
	}
	return check(l.deps.Writes.Left(bridge.SubnetFrom(ctx), now), time.Minute)
}

// charge does not count steps; the gateway does.
func (l *Link) charge(ctx context.Context, d *inbound) error {
	d.charged = true
	if wait := l.deps.Writes.Wait(bridge.SubnetFrom(ctx), d.received); wait > 0 {
		return wire.TooMany(wait)
	}
	if wait := l.deps.Take(d.sender.DID, d.received); wait > 0 {
		return wire.TooMany(wait)
	}
	return nil
}

func (l *Link) login(c *call, now time.Time) error {
	if wait := l.deps.Logins.Wait(bridge.SubnetFrom(c.Context()), now); wait > 0 {
		return wire.TooMany(wait)
	}
	return nil
}

func (l *Link) allowance(c *call, now time.Time) bridge.Allowance {
	if c.denied == nil {
		return l.deps.Left(c.agent.DID, now)
	}
	return l.registrations.Left(credential.AddressOf(c.Request), now)
}

func (l *Link) checkCaller(ctx context.Context, c *call) error {
	s := federation.Source{Network: wire.Network, Address: bridge.SubnetFrom(ctx)}
	if c.denied == nil {
		s.Participants, s.DIDs = []string{c.agent.Handle}, []federation.DID{c.agent.DID}
	}
	return l.deps.CheckBlocked(ctx, s)
}

func (l *Link) checkBlocked(ctx context.Context, handle string, dids ...federation.DID) error {
	return l.deps.CheckBlocked(ctx, federation.Source{Network: wire.Network, Participants: []string{handle}, DIDs: dids})
}

// judgedError marks a refusal that the gateway has already logged.
type judgedError struct{ error }

func (e judgedError) Unwrap() error { return e.error }

// logRejected logs the client's message for errors that a client can cause at will, or else the cause.
func (l *Link) logRejected(ctx context.Context, route string, f wire.Failure, err error) {
	if f.Status < http.StatusInternalServerError {
		l.deps.Metrics.Refusals.WithLabelValues(wire.Network, string(f.Code)).Inc()
	}
	if f.Code == wire.CodeRateLimited {
		l.deps.Metrics.Limited.WithLabelValues(wire.Network).Inc()
	}
	if p, ok := errors.AsType[*wire.ProblemError](err); ok && p.Unreadable != "" {
		l.deps.Metrics.BadInput.WithLabelValues(wire.Network, wire.Network, p.Unreadable).Inc()
	}
	if _, judged := errors.AsType[judgedError](err); judged {
		return
	}
	level, why := slog.LevelInfo, f.Message
	if f.Status >= http.StatusInternalServerError {
		why = err.Error()
	}
	if f.Code == wire.CodeInternal {
		level = slog.LevelError
	}
	attrs := []slog.Attr{
		slog.String("network", wire.Network), slog.String("link", wire.Network), slog.String("route", route),
		slog.String("reason", string(f.Code)), slog.String("err", why),
	}
	if f.Handoff != nil {
		attrs = append(attrs, slog.String("handoff_id", f.Handoff.ID.String()))
	}
	l.deps.Log.LogAttrs(ctx, level, "request refused", attrs...)
}
