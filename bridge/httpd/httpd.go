// Package httpd is the HTTP server of the gateway, for the public listener, the operators' listener
// and the operators' socket. It handles timeouts, connection limits, client addresses behind proxies,
// CORS, the access log, and the response after a panic of a handler. It serves one plain [http.Handler]
// and is independent of any network. The handler is responsible for bodies, their limits and all other
// errors.
//
// Only this package imports echo, so that leaving echo means changing one package.
//
//	server := httpd.New(httpd.Config{Listen: "127.0.0.1:8080"}, mux, log)
//	err := server.Listen(ctx) // a taken port is an error here
//	err = server.Serve(ctx)   // until ctx ends
//
// A handler may block. If it blocks for longer than the server's timeouts, it must move the deadlines
// of its connection with [http.ResponseController]; the context of its request ends when the client
// leaves.
//
// A [Server] is not safe for concurrent use, but calls its handler concurrently.
package httpd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/baton-gateway/baton/bridge"
)

// headerTimeout ends connections that send a header byte by byte.
const headerTimeout = 10 * time.Second

// readTimeout allows a request of 250 kB at 10 kB/s.
const readTimeout = 30 * time.Second

// writeTimeout allows a 30-second profile on the operators' listener.
const writeTimeout = 60 * time.Second

// idleTimeout is longer than the pause between two polls of a busy agent.
const idleTimeout = 120 * time.Second

// drainTimeout bounds requests in flight at shutdown. The gateway has ten seconds for everything.
const drainTimeout = 8 * time.Second

// maxHeaderBytes allows a token of a few kilobytes and cookies of proxies.
const maxHeaderBytes = 32 << 10

// Server is one HTTP listener.
type Server struct {
	listen   string
	socket   string
	tls      *tls.Config
	http     *http.Server
	listener net.Listener // nil until Listen
	log      *slog.Logger
	gate     *gate // nil for no limit

	forwarding *forwarding
}

// New returns a server for a handler. It does not listen before [Server.Listen].
func New(cfg Config, handler http.Handler, log *slog.Logger) *Server {
	e, limits := echo.New(), newGate(cfg)
	forwarding := &forwarding{trusted: cfg.TrustedProxies, header: cmp.Or(cfg.ForwardedHeader, XForwardedFor), log: log}
	e.IPExtractor = forwarding.extract
	e.HTTPErrorHandler = answerError
	e.Use(accessLog(log), addRetryAfter, recovery(log, cfg.Panicked), refuseConnect, forwarding.admit)
	if len(cfg.Hosts) > 0 {
		e.Use(checkHost(cfg.Hosts, log))
	}
	if len(cfg.CORSOrigins) > 0 {
		e.Use(allowOrigins(cfg.CORSOrigins))
	}
	// The only route: echo has no other routes, so it matches every request.
	e.RouteNotFound("/*", func(c echo.Context) error {
		from, ok := limits.begin(c.RealIP())
		if !ok {
			limits.Refused()
			return answerTooMany(c)
		}
		defer limits.end(from)
		handler.ServeHTTP(c.Response(), namePeer(fromClient(c, cfg.TrustedProxies)))
		return nil
	})
	return &Server{listen: cfg.Listen, socket: cfg.Socket, tls: cfg.TLS, log: log, gate: limits, forwarding: forwarding, http: &http.Server{
		ConnState:         limits.track,
		Handler:           e,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // any peer can cause these
	}}
}

// Listen opens the port or the socket. The error is one line with the address and the reason.
func (s *Server) Listen(ctx context.Context) error {
	if s.socket != "" {
		remade, err := newRemade(ctx, s.socket, s.log)
		if err == nil {
			s.listener = remade
		}
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.listen)
	if err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			err = errno // the rest only repeats the address and names a system call
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("listen %s: %w: stop the other program or choose another port", s.listen, err)
		}
		return fmt.Errorf("listen %s: %w", s.listen, err)
	}
	if s.gate != nil {
		listener = gated{listener, s.gate}
	}
	if s.tls != nil {
		listener = tls.NewListener(listener, s.tls)
	}
	s.listener = listener
	return nil
}

func (s *Server) where() string { return s.listen + s.socket }

// Addr returns the address of the open port, which the system chose if the configured port is 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve handles requests until ctx ends. It then waits at most [drainTimeout] for requests in
// flight, aborts the others, and returns nil. Any other end is an error. Call [Server.Listen]
// first.
func (s *Server) Serve(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	if remade, ok := s.listener.(*remade); ok {
		go remade.watch(context.WithoutCancel(ctx)) // until Close
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.http.Serve(s.listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serve %s: %w", s.where(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := s.http.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close() // aborts slower requests
	}
	if err != nil {
		err = fmt.Errorf("drain %s: %w", s.where(), err)
	}
	return errors.Join(err, closed(<-stopped))
}

func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close closes a port that was not served. Its error wraps [net.ErrClosed] if [Server.Serve]
// already closed it.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	if err := s.listener.Close(); err != nil {
		return fmt.Errorf("close %s: %w", s.where(), err)
	}
	return nil
}

// RemoteAddr becomes the client's address, or empty if a trusted proxy does not name the client.
func fromClient(c echo.Context, trusted []netip.Prefix) *http.Request {
	r := c.Request()
	ip := c.RealIP()
	if ip == "" {
		return r
	}
	r = r.WithContext(r.Context())
	if addr, err := netip.ParseAddr(ip); err == nil && contains(trusted, addr) {
		r.RemoteAddr = ""
		return r
	}
	_, port, _ := net.SplitHostPort(r.RemoteAddr) // formatted by the standard library
	r.RemoteAddr = net.JoinHostPort(ip, port)
	return r
}

func answerError(_ error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	_ = c.JSONBlob(http.StatusInternalServerError, []byte(`{"error":"internal","message":"internal error"}`)) // the client may be gone
}

func answerTooMany(c echo.Context) error {
	c.Response().Header().Set("Retry-After", "1")
	return c.JSONBlob(http.StatusTooManyRequests,
		[]byte(`{"error":"rate_limited","message":"too many requests from your address are in progress; wait for their answers"}`))
}

func recovery(log *slog.Logger, panicked func()) echo.MiddlewareFunc {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{
		LogErrorFunc: func(c echo.Context, err error, stack []byte) error {
			log.LogAttrs(c.Request().Context(), slog.LevelError, "handler panicked",
				slog.String("method", c.Request().Method), slog.String("path", c.Request().URL.Path),
				slog.Any("err", err), slog.String("stack", string(stack)))
			if panicked != nil {
				panicked()
			}
			return err
		},
	})
}

// The access log has no queries. It is at debug level, because other packages log the judged steps.
func accessLog(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			begun := time.Now()
			if err := next(c); err != nil {
				c.Error(err)
			}
			log.LogAttrs(c.Request().Context(), slog.LevelDebug, "request answered",
				slog.String("method", c.Request().Method), slog.String("path", c.Request().URL.Path), slog.Int("status", c.Response().Status),
				slog.Duration("took", time.Since(begun)), slog.String("client", c.RealIP()))
			return nil
		}
	}
}

func addRetryAfter(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		answer := c.Response()
		answer.Before(func() {
			if answer.Header().Get("Retry-After") == "" {
				bridge.RetryHeader(answer.Header(), answer.Status, 0)
			}
		})
		return next(c)
	}
}

// before returns a middleware that finishes before its handler starts, so that it uses no stack
// while the handler waits.
func before(m echo.MiddlewareFunc) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			passed := false
			err := m(func(echo.Context) error { passed = true; return nil })(c)
			if err != nil || !passed {
				return err
			}
			return next(c)
		}
	}
}

// Config is the configuration of a listener.
type Config struct {
	Listen         string         // "host:port"; or
	Socket         string         // path of a unix socket for its owner only
	CORSOrigins    []string       // "*", or origins such as "https://app.example"; never with credentials
	TrustedProxies []netip.Prefix // proxies trusted to set ForwardedHeader

	ForwardedHeader string   // [XForwardedFor], also for "", or [Forwarded]
	Hosts           []string // allowed names in the Host header, besides IP addresses and "localhost"; empty allows all
	TLS             *tls.Config
	Limits          *Limits // per client; nil for none
	Panicked        func()  // called for each panic of a handler; may be nil
}

const servedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// The server opens no tunnels, and a CONNECT request has no path to route.
//
// spec: RFC 9110 §9.3.6, §15.5.6
func refuseConnect(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Method != http.MethodConnect {
			return next(c)
		}
		c.Response().Header().Set("Allow", servedMethods)
		return c.JSONBlob(http.StatusMethodNotAllowed, []byte(`{"error":"method_not_allowed","message":"this server is no proxy"}`))
	}
}

// maxAge is how long a browser caches a CORS response, in seconds.
const maxAge = 600

// allowOrigins lets scripts of some origins read responses. If all origins are allowed, every
// response says so, even if the request has no Origin. Deployed AIRC registries do the same, and
// caches then keep one response for all.
//
// spec: airc §11
func allowOrigins(origins []string) echo.MiddlewareFunc {
	checked := before(middleware.CORSWithConfig(middleware.CORSConfig{AllowOrigins: origins, ExposeHeaders: exposed(), MaxAge: maxAge}))
	if !slices.Contains(origins, "*") {
		return checked
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		answer := checked(next)
		return func(c echo.Context) error {
			c.Response().Header().Set(echo.HeaderAccessControlAllowOrigin, "*")
			return answer(c)
		}
	}
}

func exposed() []string {
	return []string{"Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
}

// checkHost refuses requests with a foreign name in the Host header. Otherwise, a web page could
// point its own name at this listener (DNS rebinding) and read from it. IP addresses and
// "localhost" are allowed, because no stranger can serve a page under them. So are requests without
// a host, which no browser sends.
func checkHost(names []string, log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if isOwnHost(c.Request().Host, names) {
				return next(c)
			}
			log.LogAttrs(c.Request().Context(), slog.LevelInfo, "request with a foreign Host refused",
				slog.String("path", c.Request().URL.Path), slog.String("host", c.Request().Host), slog.String("client", c.RealIP()))
			return c.JSONBlob(http.StatusMisdirectedRequest, []byte(`{"error":"foreign_host","message":"this listener does not serve the host in the Host header"}`))
		}
	}
}

func isOwnHost(header string, names []string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || host == "localhost" || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}
