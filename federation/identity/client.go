package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/federation"
)

// FetchConfig restricts the requests of a [Client].
type FetchConfig struct {
	AllowPrivate bool           // private and loopback addresses, and plain http
	Denied       []netip.Prefix // even with AllowPrivate
	Timeout      time.Duration  // of one request, including the wait for the rate limit
	MaxBytes     int64          // of one body
	PerHost      int            // requests per second
	Resolver     *net.Resolver  // nil for the system's
	TLS          *tls.Config    // nil for the system's authorities and no client certificate
	// Transport replaces the guarded connections within one process. It may be nil.
	Transport http.RoundTripper
}

// A rate has about 200 bytes. Buckets refill within a second, in which a home queries far fewer hosts.
const maxHosts = 4096

// Only Cache-Control, Location and Retry-After are used.
const maxHeaderBytes = 16 << 10

// ErrTooLarge is returned for a body over the limit.
var ErrTooLarge = errors.New("identity: document too large")

// ErrNotAllowed is wrapped in errors for a forbidden address, including redirect targets.
var ErrNotAllowed = errors.New("address not allowed")

// ErrPrivate is wrapped in errors for a non-public address. It wraps [ErrNotAllowed].
var ErrPrivate = fmt.Errorf("%w: it is not public", ErrNotAllowed)

// ErrRedirect is wrapped in errors for a rejected redirect. It wraps [ErrNotAllowed].
var ErrRedirect = fmt.Errorf("%w: a redirect to another host, or a second one", ErrNotAllowed)

// Client fetches documents from untrusted addresses. Without AllowPrivate, it uses only HTTPS and
// public addresses. It follows one redirect to the same host. Each resolved address is checked when
// dialing, so that names and redirects cannot lead to a private address.
type Client struct {
	cfg   FetchConfig
	guard guard
	dial  *net.Dialer
	http  *http.Client
	rates rates
}

// NewClient returns a client.
func NewClient(cfg FetchConfig) *Client {
	guard := newGuard(cfg)
	dialer := guard.dialer(cmp.Or(cfg.Resolver, net.DefaultResolver))
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:                  nil, // a proxy would bypass the guard
			DialContext:            dialer.DialContext,
			TLSClientConfig:        cfg.TLS,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableKeepAlives:      true, // each request must dial, to check the address
		}
	}
	return &Client{
		cfg:   cfg,
		guard: guard,
		dial:  dialer,
		http:  &http.Client{Transport: transport, CheckRedirect: sameHostOnce},
		rates: rates{perSecond: cfg.PerHost, hosts: map[string]*rate.Limiter{}},
	}
}

func sameHostOnce(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	if len(before) > 1 || next.URL.Host != first.Host || next.URL.Scheme != first.Scheme || next.URL.User != nil {
		return fmt.Errorf("%w: to %s", ErrRedirect, next.URL.Redacted())
	}
	return nil
}

// Get returns the body at an address. The error wraps [federation.ErrNotFound] if the host has no
// document, [ErrTooLarge], or [*federation.UnavailableError] if a retry may help. It blocks for at most
// the timeout.
func (c *Client) Get(ctx context.Context, address string) ([]byte, error) {
	content, _, err := c.Fetch(ctx, address)
	return content, err
}

// Fetch is a [Client.Get] that also returns the cache lifetime, or a negative one if the response has
// none.
func (c *Client) Fetch(ctx context.Context, address string) ([]byte, time.Duration, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, 0, fmt.Errorf("fetch: %w: %w", ErrNotAllowed, err)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !c.cfg.AllowPrivate) {
		return nil, 0, fmt.Errorf("fetch %s: %w: want https", u.Redacted(), ErrNotAllowed)
	}
	if u.User != nil || !isHost(u.Hostname()) {
		return nil, 0, fmt.Errorf("fetch %s: %w: want a host and nothing before it", u.Redacted(), ErrNotAllowed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	if err := c.rates.wait(ctx, u.Host); err != nil {
		return nil, 0, unavailable(u.Host, time.Second, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, 0, fmt.Errorf("fetch %s: %w", u.Redacted(), err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, 0, unavailable(u.Host, 0, err)
	}
	defer response.Body.Close()
	if err := checkStatus(response); err != nil {
		return nil, 0, err
	}
	content, err := c.body(u, response.Body)
	return content, Freshness(response.Header), err
}

// Freshness returns the cache lifetime of a response, or a negative duration if its header has none.
//
// spec: RFC 9111 §5.2.2
func Freshness(h http.Header) time.Duration {
	life := time.Duration(-1)
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				life = time.Duration(seconds) * time.Second
			}
		}
	}
	return life
}

// Some resolvers read a name that ends in a number as an address.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	name := strings.TrimSuffix(host, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	digits, hex := strings.CutPrefix(strings.ToLower(last), "0x")
	number := strings.Trim(digits, "0123456789") == "" || hex && strings.Trim(digits, "0123456789abcdef") == ""
	return !number
}

func (c *Client) body(u *url.URL, body io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(body, c.cfg.MaxBytes+1))
	if err != nil {
		return nil, unavailable(u.Host, 0, err)
	}
	if int64(len(content)) > c.cfg.MaxBytes {
		return nil, fmt.Errorf("fetch %s: %w", u.Redacted(), ErrTooLarge)
	}
	return content, nil
}

// Only 404 and 410 mean that there is no document; any other status is an outage.
func checkStatus(response *http.Response) error {
	u := response.Request.URL
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("fetch %s: %w", u.Redacted(), federation.ErrNotFound)
	}
	err := fmt.Errorf("fetch %s: status %d", u.Redacted(), response.StatusCode)
	return unavailable(u.Host, RetryAfter(response.Header), err)
}

func unavailable(what string, after time.Duration, err error) error {
	return &federation.UnavailableError{What: what, RetryAfter: after, Err: err}
}

type rates struct {
	perSecond int

	mu    sync.Mutex
	hosts map[string]*rate.Limiter
}

// wait fails at once if the rate limit allows a request only after the deadline.
func (r *rates) wait(ctx context.Context, host string) error {
	if err := r.of(host).Wait(ctx); err != nil {
		return fmt.Errorf("wait for a turn at %s: %w", host, err)
	}
	return nil
}

func (r *rates) of(host string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limiter, ok := r.hosts[host]; ok {
		return limiter
	}
	if len(r.hosts) >= maxHosts {
		for host, limiter := range r.hosts {
			if limiter.Tokens() >= float64(r.perSecond) {
				delete(r.hosts, host)
			}
		}
		if len(r.hosts) >= maxHosts {
			clear(r.hosts)
		}
	}
	limiter := rate.NewLimiter(rate.Limit(r.perSecond), r.perSecond)
	r.hosts[host] = limiter
	return limiter
}

// Connections are checked after name resolution, so that no name or redirect bypasses the guard.
type guard struct {
	public *ssrf.Guardian // nil if private addresses are allowed
	denied []netip.Prefix
}

func newGuard(cfg FetchConfig) guard {
	g := guard{denied: cfg.Denied}
	if !cfg.AllowPrivate {
		g.public = ssrf.New(ssrf.WithAnyPort())
	}
	return g
}

func (g guard) control(network, address string, conn syscall.RawConn) error {
	if g.public != nil {
		if err := g.public.Safe(network, address, conn); err != nil {
			return fmt.Errorf("%w: %w", ErrPrivate, err)
		}
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNotAllowed, address)
	}
	return g.checkDenied(to.Addr())
}

// The error wraps [ErrNotAllowed].
func (g guard) check(addr netip.Addr) error {
	if g.public != nil && g.public.SafeAddr(addr.Unmap()) != nil {
		return fmt.Errorf("%w: %s is not public", ErrNotAllowed, addr.Unmap())
	}
	return g.checkDenied(addr)
}

func (g guard) checkDenied(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if slices.ContainsFunc(g.denied, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return fmt.Errorf("%w: %s is in fetch.denied_networks", ErrNotAllowed, addr)
	}
	return nil
}

func (g guard) dialer(resolver *net.Resolver) *net.Dialer {
	return &net.Dialer{Resolver: resolver, Control: g.control}
}

// An authority has about 2 kB.
const maxAuthorityBytes = 256 << 10

// ReadAuthorities reads a PEM file with certificates of authorities.
func ReadAuthorities(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file, in the configuration
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAuthorityBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read authorities: %w", err)
	case len(text) > maxAuthorityBytes:
		return nil, errors.New("read authorities: " + path + " is too long")
	case !x509.NewCertPool().AppendCertsFromPEM(text):
		return nil, errors.New("read authorities: want certificates in PEM")
	}
	return text, nil
}

// WithAuthorities adds the authorities in a PEM text to the system's authorities.
func WithAuthorities(text []byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the authorities of this system: %w", err)
	}
	roots.AppendCertsFromPEM(text)
	return roots, nil
}

// ErrTurn is wrapped in the error of [Client.Call] at the rate limit of the host. The call was not
// made.
var ErrTurn = errors.New("the request limit of the host is reached")

// Callable returns nil if [Client.Call] would call an address now. The error wraps [ErrNotAllowed] for
// a forbidden address, and [*federation.UnavailableError] if the name cannot be resolved. Each call
// checks again, because names may change their addresses.
func (c *Client) Callable(ctx context.Context, address string) error {
	u, err := c.callee(address)
	if err != nil || c.cfg.AllowPrivate && len(c.cfg.Denied) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	addresses, err := c.dial.Resolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return unavailable(u.Host, 0, err)
	}
	for _, ip := range addresses {
		if err := c.guard.check(ip); err != nil {
			return fmt.Errorf("call %s: %w", shown(u), err)
		}
	}
	return nil
}

func (c *Client) callee(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("call: %w: %w", ErrNotAllowed, err)
	case u.Scheme != "https" && (u.Scheme != "http" || !c.cfg.AllowPrivate):
		return nil, fmt.Errorf("call %s: %w: want https", shown(u), ErrNotAllowed)
	case u.User != nil || u.Fragment != "" || u.Hostname() == "" || !isHost(u.Hostname()):
		return nil, fmt.Errorf("call %s: %w: want a host with nothing before it, and no fragment", shown(u), ErrNotAllowed)
	}
	return u, nil
}

// Call posts JSON to an address and returns the response without its body. It does not follow
// redirects. The error wraps [ErrTurn], [ErrNotAllowed], or [*federation.UnavailableError] without a
// response. It blocks for at most the timeout.
func (c *Client) Call(ctx context.Context, address string, header http.Header, body []byte) (Answer, error) {
	u, err := c.callee(address)
	if err != nil {
		return Answer{}, err
	}
	if !c.rates.of(u.Host).Allow() {
		return Answer{}, fmt.Errorf("call %s: %w", u.Host, ErrTurn)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("call %s: %w", shown(u), err)
	}
	request.Header = header.Clone()
	response, err := c.http.Transport.RoundTrip(request)
	if errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ErrNotAllowed) {
		return Answer{}, fmt.Errorf("call %s: %w: %w", shown(u), ErrNotAllowed, err)
	}
	if err != nil {
		return Answer{}, unavailable(u.Host, 0, err)
	}
	defer response.Body.Close()
	return Answer{Status: response.StatusCode, RetryAfter: RetryAfter(response.Header)}, nil
}

// RetryAfter returns the wait requested by a host. It returns zero for no value, a date, or more than
// 18 hours.
func RetryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// The path is often a secret.
func shown(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }

// Answer is a response with any status.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration // or zero
}

// Post sends JSON to an address and returns the response. It does not follow redirects. The error wraps
// [*federation.UnavailableError] for a missing or too long response, although the host may have
// received the message. It blocks for at most the timeout.
func (c *Client) Post(ctx context.Context, address string, body []byte) (Answer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Answer{}, fmt.Errorf("post: %w", err)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !c.cfg.AllowPrivate) {
		return Answer{}, fmt.Errorf("post to %s: %w: want https", shown(u), ErrNotAllowed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	if err := c.rates.wait(ctx, u.Host); err != nil {
		return Answer{}, unavailable(u.Host, time.Second, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("post to %s: %w", shown(u), err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Transport.RoundTrip(request)
	if err != nil {
		return Answer{}, unavailable(u.Host, 0, err)
	}
	defer response.Body.Close()
	content, err := c.body(u, response.Body)
	if err != nil {
		return Answer{}, unavailable(u.Host, 0, err)
	}
	return Answer{Status: response.StatusCode, Body: content, RetryAfter: RetryAfter(response.Header)}, nil
}
