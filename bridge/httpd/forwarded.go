package httpd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/baton-gateway/baton/bridge"
)

// Values of [Config.ForwardedHeader].
const (
	XForwardedFor = "x-forwarded-for"
	Forwarded     = "forwarded" // RFC 7239
)

// forwardedLog is the minimum interval between log lines about proxies, because any request can cause
// one.
const forwardedLog = time.Minute

// forwarding is safe for concurrent use.
type forwarding struct {
	trusted []netip.Prefix
	header  string
	log     *slog.Logger

	mu     sync.Mutex
	seen   bridge.Unforwarded
	logged time.Time
}

// errUnnamed means that a request of a trusted proxy lacks the header.
var errUnnamed = errors.New("the header is missing")

// client returns the client address of a request, or the zero Addr for a connection without one. If
// the header is missing, it returns the address of the trusted proxy with [errUnnamed]. Any other
// error means that the header is malformed. Only entries added by trusted proxies count: the last
// entry, and each entry before one with the address of a trusted proxy.
func (f *forwarding) client(r *http.Request) (netip.Addr, error) {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, nil // a unix socket
	}
	addr := remote.Addr().Unmap().WithZone("")
	if !contains(f.trusted, addr) {
		return addr, nil
	}
	text := strings.Join(r.Header.Values(f.header), ",")
	if strings.TrimSpace(text) == "" {
		return addr, errUnnamed
	}
	entries, err := split(text, ',')
	if err != nil {
		return addr, err
	}
	for _, entry := range slices.Backward(entries) {
		if f.header == Forwarded {
			if entry, err = forOf(entry); err != nil {
				return addr, err
			}
		}
		if addr, err = parseNode(entry); err != nil || !contains(f.trusted, addr) {
			return addr, err
		}
	}
	return addr, errUnnamed
}

// split splits a header at a separator outside quoted strings.
//
// spec: RFC 9110 §5.6.4
func split(text string, separator byte) ([]string, error) {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts, start = append(parts, strings.TrimSpace(text[start:i])), i+1
		}
	}
	if quoted {
		return nil, errors.New("unterminated quoted string")
	}
	return append(parts, strings.TrimSpace(text[start:])), nil
}

// forOf returns the "for" node in an element of Forwarded.
//
// spec: RFC 7239 §4
func forOf(element string) (string, error) {
	pairs, err := split(element, ';')
	if err != nil {
		return "", err
	}
	found := ""
	for _, pair := range pairs {
		if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(name), "for") {
			if found != "" {
				return "", fmt.Errorf("%q has a second for parameter", element)
			}
			found = strings.TrimSpace(value)
		}
	}
	if found == "" {
		return "", fmt.Errorf("%q has no for parameter", element)
	}
	return found, nil
}

// parseNode parses IPv4, or IPv6 with or without brackets, with or without a port, bare or as a
// quoted string.
func parseNode(text string) (netip.Addr, error) {
	node := text
	if len(node) > 1 && node[0] == '"' && node[len(node)-1] == '"' {
		node = node[1 : len(node)-1] // addresses contain no escaped characters
	}
	if with, err := netip.ParseAddrPort(node); err == nil {
		return with.Addr().Unmap().WithZone(""), nil
	}
	if inner, ok := strings.CutPrefix(node, "["); ok {
		node, ok = strings.CutSuffix(inner, "]")
		if !ok || !strings.Contains(node, ":") {
			return netip.Addr{}, fmt.Errorf("%q is not an address", text)
		}
	}
	addr, err := netip.ParseAddr(node)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an address", text)
	}
	return addr.Unmap().WithZone(""), nil
}

func (f *forwarding) extract(r *http.Request) string {
	addr, err := f.client(r)
	if !addr.IsValid() || err != nil && !errors.Is(err, errUnnamed) {
		return ""
	}
	return addr.String()
}

// admit rejects a request whose forwarding header is malformed, because limits and blocks by
// address would not apply to it. It admits a request without the header, such as a health check of
// the proxy.
func (f *forwarding) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		_, err := f.client(c.Request())
		if err == nil {
			return next(c)
		}
		f.logProblem(c.Request(), err)
		if errors.Is(err, errUnnamed) {
			return next(c)
		}
		return c.JSONBlob(http.StatusBadRequest, []byte(`{"error":"bad_forwarded","message":"the proxy in front of this gateway sent no client address"}`))
	}
}

// At most one request per forwardedLog is logged.
func (f *forwarding) logProblem(r *http.Request, err error) {
	now := time.Now()
	f.mu.Lock()
	if errors.Is(err, errUnnamed) {
		f.seen.Unnamed++
	} else {
		f.seen.Unreadable++
	}
	f.seen.Last, f.seen.At = err.Error(), now
	seen, due := f.seen, now.Sub(f.logged) >= forwardedLog
	if due {
		f.logged = now
	}
	f.mu.Unlock()
	if due {
		f.log.LogAttrs(r.Context(), slog.LevelWarn, "trusted proxy sent no client address", slog.String("header", f.header), slog.String("proxy", r.RemoteAddr),
			slog.Any("err", err), slog.Int("refused", seen.Unreadable), slog.Int("unlimited", seen.Unnamed))
	}
}

// Unforwarded returns the counts of requests without a usable client address.
func (s *Server) Unforwarded() bridge.Unforwarded {
	s.forwarding.mu.Lock()
	defer s.forwarding.mu.Unlock()
	seen := s.forwarding.seen
	seen.Header = s.forwarding.header
	return seen
}
