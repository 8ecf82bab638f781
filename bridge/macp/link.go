// Package macp is a runtime of the Multi-Agent Coordination Protocol for sessions of the handoff
// mode, and a client of other operators' runtimes.
//
// A configured participant connects with its token, over gRPC, Connect or JSON. An envelope is
// answered once it is on disk, in the journal of its session. This history determines the state of
// the session, so a restart restores the same state. One goroutine, the engine, judges all
// envelopes, and writes the entries of all waiting calls in one transaction.
//
// Sessions and handoffs mirror each other. Offers of a session and their answers are filed as
// vouched steps of a handoff, with their envelopes as evidence. Steps from other networks become
// messages of the session, or signals. An offer to a participant opens a session, which the gateway
// owns in the name of the offerer.
//
// Only one replica of a home serves sessions at a time: the one with the lease of the link. See
// README.md for a tour.
//
// spec: RFC-MACP-0001, RFC-MACP-0006, RFC-MACP-0010, RFC-MACP-0012
package macp

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// Link is the runtime of one gateway. It implements [bridge.Link].
type Link struct {
	cfg          Config
	participants participants
	ports        bridge.Ports
	deps         Deps
	log          *slog.Logger
	engine       *engine
	filer        *filer
	rates        map[string]rates
	bound        atomic.Pointer[string]
}

var _ bridge.InboxReader = (*Link)(nil)

// Name implements [bridge.Link].
func (*Link) Name() string { return network }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// ReadsInbox implements [bridge.InboxReader]: an offer to a participant needs no channel.
func (*Link) ReadsInbox() {}

// Run implements [bridge.Link]. It serves participants until ctx ends.
func (l *Link) Run(ctx context.Context, up func()) error {
	engine := newEngine(l.deps, l.log)
	l.filer = newFiler(l)
	engine.wake = l.filer.wake
	l.engine = engine
	listener, err := l.listen(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(fault.Func(func() error { return engine.run(ctx) }))
	group.Go(fault.Func(func() error { return l.filer.run(ctx) }))
	group.Go(fault.Func(func() error { return l.serve(ctx, listener) }))
	up()
	return group.Wait()
}

// Carries implements [bridge.Link]. The link carries offers to participants, and all steps of handoffs
// with a session. A step that a participant requested by a signal is in no history, so the other
// participants of its session are notified.
func (l *Link) Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error) {
	if ev.Arrival.Link == network && !macpmode.BySignal(ev.Verb) { // the session contains it
		return false, nil
	}
	if _, to, err := l.participantOf(ctx, after.Offeree); to || err != nil || ev.Verb == federation.Offer {
		return to, err
	}
	_, err := l.deps.Journals.JournalLength(ctx, handoffJournal(after.ID))
	if err != nil && !isNotFound(err) {
		return false, fmt.Errorf("look up the session of %s: %w", after.ID, err)
	}
	return err == nil, nil
}

func (l *Link) participantOf(ctx context.Context, did federation.DID) (participant, bool, error) {
	if did == "" {
		return participant{}, false, nil
	}
	for _, one := range l.participants.all {
		if same, err := l.ports.Gateway.Same(ctx, one.did, did); same || err != nil {
			return one, same, err
		}
	}
	return participant{}, false, nil
}

func href(p bridge.Ports, id federation.HandoffID) string {
	return p.PublicURL + "/api/v1/handoffs/" + id.String()
}

const (
	maxConnections = 1024
	maxBodyBytes   = macpmode.MaxPayloadBytes*4/3 + 64<<10 // an envelope in JSON, and the rest of the request
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	drainTimeout   = 2 * time.Second // for requests in flight when the runtime stops
)

const (
	rpcPath  = "/macp.v1.MACPRuntimeService/"
	jsonPath = "/macp/v1/"
)

func (l *Link) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", l.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for MACP on %s: %w", l.cfg.Listen, err)
	}
	l.bound.Store(new(listener.Addr().String()))
	listener = netutil.LimitListener(listener, maxConnections)
	if l.cfg.TLS {
		listener = tls.NewListener(listener, l.ports.Certificate.Config("h2", "http/1.1"))
	}
	return listener, nil
}

func (l *Link) address() string {
	if bound := l.bound.Load(); bound != nil {
		return *bound
	}
	return l.cfg.Listen
}

func (l *Link) serve(ctx context.Context, listener net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	var inFlight sync.WaitGroup
	routes := l.routes()
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Add(1)
		defer inFlight.Done()
		err := fault.Catch(func() error { routes.ServeHTTP(w, r); return nil })
		if l.ports.Metrics.Fault(r.Context(), l.log, "request", err) {
			panic(http.ErrAbortHandler) // the client must not mistake the partial response for a complete one
		}
	})
	server := &http.Server{
		Handler: counted, Protocols: protocols, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(l.log.Handler(), slog.LevelWarn), BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if server.Shutdown(drain) != nil {
			_ = server.Close() // streams do not end on their own
		}
	})
	err := server.Serve(listener)
	if stop() { // Serve failed
		_ = server.Close()
	} else {
		<-stopped
	}
	inFlight.Wait() // the contexts of all requests have ended
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (l *Link) routes() http.Handler {
	mux := http.NewServeMux()
	unary(mux, l, "Initialize", false, l.initialize)
	unary(mux, l, "ListModes", false, l.listModes)
	unary(mux, l, "GetManifest", false, l.getManifest)
	unary(mux, l, "GetSession", true, l.getSession)
	unary(mux, l, "ListSessions", true, l.listSessions)
	unary(mux, l, "CancelSession", true, l.cancelSession)
	unary(mux, l, "SuspendSession", true, l.suspendSession)
	unary(mux, l, "ResumeSession", true, l.resumeSession)
	unary(mux, l, "RegisterPolicy", true, l.registerPolicy)
	unary(mux, l, "UnregisterPolicy", true, l.unregisterPolicy)
	unary(mux, l, "GetPolicy", true, l.getPolicy)
	unary(mux, l, "ListPolicies", true, l.listPolicies)
	watching(mux, l, "WatchSessions", l.watchSessions)
	watching(mux, l, "WatchSignals", l.watchSignals)
	watching(mux, l, "WatchPolicies", l.watchPolicies)
	l.mountSend(mux)
	const method = "StreamSession"
	mux.Handle(rpcPath+method, connect.NewBidiStreamHandler(rpcPath+method, func(ctx context.Context, s *connect.BidiStream[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse]) error {
		from, err := l.admit(ctx, s.RequestHeader(), true)
		if err == nil {
			err = l.converse(ctx, from, s)
		}
		return l.ended(ctx, method, err)
	}, options()...))
	mux.HandleFunc("POST "+jsonPath+method, l.followJSON)
	mux.Handle(rpcPath, connect.NewUnaryHandler(rpcPath, func(context.Context, *connect.Request[macpv1.ListModesRequest]) (*connect.Response[macpv1.ListModesResponse], error) {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this runtime does not have the method"))
	}))
	mux.HandleFunc("GET /.well-known/macp.json", l.wellKnown)
	return mux
}

func options() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithReadMaxBytes(maxBodyBytes)}
}

type message[T any] interface {
	*T
	proto.Message
}

// A closed call requires a token.
func unary[Req, Res any, PReq message[Req], PRes message[Res]](mux *http.ServeMux, l *Link, method string, closed bool, do func(context.Context, participant, PReq) (PRes, error)) {
	mux.Handle(rpcPath+method, connect.NewUnaryHandler(rpcPath+method, func(ctx context.Context, r *connect.Request[Req]) (*connect.Response[Res], error) {
		from, err := l.admit(ctx, r.Header(), closed)
		var answer PRes
		if err == nil {
			answer, err = do(ctx, from, r.Msg)
		}
		if err != nil {
			l.noteCall(ctx, method, err)
			return nil, rpcError(err)
		}
		return connect.NewResponse((*Res)(answer)), nil
	}, options()...))
	mux.HandleFunc("POST "+jsonPath+method, func(w http.ResponseWriter, r *http.Request) {
		from, err := l.admit(r.Context(), r.Header, closed)
		req := PReq(new(Req))
		if err == nil {
			err = readBody(w, r, req)
		}
		var answer PRes
		if err == nil {
			answer, err = do(r.Context(), from, req)
		}
		if err != nil {
			l.noteCall(r.Context(), method, err)
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

// On gRPC, Send reports a bad token in its response.
func (l *Link) mountSend(mux *http.ServeMux) {
	const method = "Send"
	mux.Handle(rpcPath+method, connect.NewUnaryHandler(rpcPath+method, func(ctx context.Context, r *connect.Request[macpv1.SendRequest]) (*connect.Response[macpv1.SendResponse], error) {
		from, err := l.admit(ctx, r.Header(), true)
		var answer *macpv1.SendResponse
		switch {
		case err != nil && r.Msg.GetEnvelope() != nil:
			l.noteCall(ctx, method, err)
			answer, err = &macpv1.SendResponse{Ack: refusedAck(r.Msg.GetEnvelope(), macpv1.SessionState_SESSION_STATE_UNSPECIFIED, err)}, nil
		case err == nil:
			answer, err = l.sendCall(ctx, from, r.Msg)
		}
		if err != nil {
			return nil, rpcError(err)
		}
		return connect.NewResponse(answer), nil
	}, options()...))
	mux.HandleFunc("POST "+jsonPath+method, func(w http.ResponseWriter, r *http.Request) {
		from, err := l.admit(r.Context(), r.Header, true)
		req := &macpv1.SendRequest{}
		if err == nil {
			err = readBody(w, r, req)
		}
		var answer *macpv1.SendResponse
		if err == nil {
			answer, err = l.sendCall(r.Context(), from, req)
		}
		if err != nil {
			l.noteCall(r.Context(), method, err)
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

// The response header confirms the watch to the client; do calls begin, which sends the header,
// once no later event can be missed.
func watching[Req, Res any, PReq message[Req], PRes message[Res]](mux *http.ServeMux, l *Link, method string, do func(ctx context.Context, from participant, req PReq, begin func() error, send func(PRes) error) error) {
	mux.Handle(rpcPath+method, connect.NewServerStreamHandler(rpcPath+method, func(ctx context.Context, r *connect.Request[Req], s *connect.ServerStream[Res]) error {
		from, err := l.admit(ctx, r.Header(), true)
		if err == nil {
			err = do(ctx, from, r.Msg, func() error { return s.Send(nil) }, func(m PRes) error { return s.Send((*Res)(m)) })
		}
		return l.ended(ctx, method, err)
	}, options()...))
	mux.HandleFunc("POST "+jsonPath+method, func(w http.ResponseWriter, r *http.Request) {
		from, err := l.admit(r.Context(), r.Header, true)
		req := PReq(new(Req))
		if err == nil {
			err = readBody(w, r, req)
		}
		var out *events
		if err == nil {
			err = do(r.Context(), from, req, func() error { out = newEvents(w); return nil }, func(m PRes) error { return out.send("", m) })
		}
		if out == nil {
			writeError(w, err)
			return
		}
		out.end(err)
	})
}

// ended does not log clients that leave.
func (l *Link) ended(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return connect.NewError(connect.CodeCanceled, context.Cause(ctx))
	}
	l.noteCall(ctx, method, err)
	return rpcError(err)
}

// Only closed calls require a token.
func (l *Link) admit(ctx context.Context, header http.Header, closed bool) (participant, error) {
	if !closed {
		return participant{}, nil
	}
	token := header.Get("X-Macp-Token")
	if scheme, rest, _ := strings.Cut(header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimSpace(rest)
	}
	from, known := l.participants.byToken[sha256.Sum256([]byte(token))]
	if token == "" || !known {
		return participant{}, macpmode.Refuse(macpmode.Unauthenticated, "want Authorization: Bearer with the token of a participant")
	}
	return from, l.ports.CheckBlocked(ctx, federation.Source{DIDs: []federation.DID{from.did}})
}

func (l *Link) logRefused(ctx context.Context, env *macpv1.Envelope, err error) {
	refused := refusalOf(err)
	l.ports.Metrics.Refusals.WithLabelValues(network, string(refused.Code)).Inc()
	if refused.Code == macpmode.InvalidEnvelope {
		l.ports.Metrics.BadInput.WithLabelValues(network, l.Name(), "envelope").Inc()
	}
	level := slog.LevelInfo
	if refused.Code == macpmode.InternalError {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(ctx, level, "envelope refused", slog.String("verb", env.GetMessageType()), slog.String("reason", string(refused.Code)), slog.Any("err", err))
}

func (l *Link) noteCall(ctx context.Context, method string, err error) {
	refused := refusalOf(err)
	l.ports.Metrics.Refusals.WithLabelValues(network, string(refused.Code)).Inc()
	level := slog.LevelInfo
	if refused.Code == macpmode.InternalError && ctx.Err() == nil {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(ctx, level, "call refused", slog.String("verb", method), slog.String("reason", string(refused.Code)), slog.Any("err", err))
}
