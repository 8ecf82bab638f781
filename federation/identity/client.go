package identity

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"baton/federation"
)

// FetchConfig bounds what a [Client] does.
type FetchConfig struct {
	AllowPrivate bool           // reach private and loopback addresses, and plain http
	Denied       []netip.Prefix // never dialled, whatever AllowPrivate says
	Timeout      time.Duration  // of one Get, from waiting for its turn to the last byte
	MaxBytes     int64          // of one body
	PerHost      int            // requests a second to one host
	Resolver     *net.Resolver  // looks names up; nil for that of the system
	TLS          *tls.Config    // what HTTPS is spoken with; nil for no certificate, and the authorities of this system
}

// maxHosts bounds the hosts whose rate is remembered, at some 200 bytes each. It is
// far more hosts than one home asks within a second, after which a bucket is full
// again and need not be remembered.
const maxHosts = 4096

// maxHeaderBytes bounds the header of an answer, of which nothing is used but a
// location and a time to wait.
const maxHeaderBytes = 16 << 10

// ErrTooLarge is returned by [Client.Get] for a body above the bound.
var ErrTooLarge = errors.New("identity: document too large")

// ErrNotAllowed is wrapped in errors of [Client] for an address that it does not ask at
// all, or that a host wanted to send it to.
var ErrNotAllowed = errors.New("address not allowed")

// ErrPrivate is wrapped in errors of clients for an address that is not public. It wraps
// [ErrNotAllowed].
var ErrPrivate = fmt.Errorf("%w: it is not public", ErrNotAllowed)

// Client fetches documents at addresses that strangers chose. Unless AllowPrivate
// says otherwise it speaks HTTPS alone and dials public addresses alone; it follows
// one redirect, to the same host. The address is checked when it is dialled, after
// its name was resolved, so that no name and no redirect leads inside.
type Client struct {
	cfg   FetchConfig
	guard guard
	dial  *net.Dialer // guarded
	http  *http.Client
	rates rates
}

// NewClient returns a client.
func NewClient(cfg FetchConfig) *Client {
	guard := newGuard(cfg)
	dialer := guard.dialer(cmp.Or(cfg.Resolver, net.DefaultResolver))
	transport := &http.Transport{
		Proxy:                  nil, // a proxy would dial for us, unguarded
		DialContext:            dialer.DialContext,
		TLSClientConfig:        cfg.TLS,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableKeepAlives:      true, // each request is dialled, and so checked; hosts are asked rarely
	}
	return &Client{
		cfg:   cfg,
		guard: guard,
		dial:  dialer,
		http:  &http.Client{Transport: transport, CheckRedirect: sameHostOnce},
		rates: rates{perSecond: cfg.PerHost, hosts: map[string]*rate.Limiter{}},
	}
}

// sameHostOnce lets a document move within its host. Another host has no say about
// it.
func sameHostOnce(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	if len(before) > 1 || next.URL.Host != first.Host || next.URL.Scheme != first.Scheme || next.URL.User != nil {
		return fmt.Errorf("%w: redirect to %s", ErrNotAllowed, next.URL.Redacted())
	}
	return nil
}

// Get returns the body at an address. The error wraps [federation.ErrNotFound] when
// the host says that there is nothing, [ErrTooLarge] when there is too much, and
// [*federation.UnavailableError] when asking again may help. It blocks for at most
// the timeout.
func (c *Client) Get(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w: %w", ErrNotAllowed, err)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !c.cfg.AllowPrivate) {
		return nil, fmt.Errorf("fetch %s: %w: want https", u.Redacted(), ErrNotAllowed)
	}
	if u.User != nil || !isHost(u.Hostname()) {
		return nil, fmt.Errorf("fetch %s: %w: want a host and nothing before it", u.Redacted(), ErrNotAllowed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	if err := c.rates.wait(ctx, u.Host); err != nil {
		return nil, unavailable(u.Host, time.Second, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", u.Redacted(), err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unavailable(u.Host, 0, err)
	}
	defer response.Body.Close()
	if err := checkStatus(response); err != nil {
		return nil, err
	}
	return c.body(u, response.Body)
}

// isHost reports whether a host is a name or an address in its usual form. A name
// that ends in a number is an address to some resolvers and to others not.
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

// body reads to the end or the bound.
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

// checkStatus tells an answer from an excuse. Only 404 and 410 say that there is
// nothing: whatever else a host answers may be its bad day.
func checkStatus(response *http.Response) error {
	u := response.Request.URL
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("fetch %s: %w", u.Redacted(), federation.ErrNotFound)
	}
	err := fmt.Errorf("fetch %s: status %d", u.Redacted(), response.StatusCode)
	return unavailable(u.Host, retryAfter(response.Header), err)
}

func unavailable(what string, after time.Duration, err error) error {
	return &federation.UnavailableError{What: what, RetryAfter: after, Err: err}
}

// rates holds one bucket a host.
type rates struct {
	perSecond int

	mu    sync.Mutex
	hosts map[string]*rate.Limiter
}

// wait blocks until a host may be asked. It fails at once when that is after the
// deadline.
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
		r.forget()
	}
	limiter := rate.NewLimiter(rate.Limit(r.perSecond), r.perSecond)
	r.hosts[host] = limiter
	return limiter
}

// forget drops the hosts that were not asked lately, whose buckets are full again,
// and all of them if that makes no room.
func (r *rates) forget() {
	for host, limiter := range r.hosts {
		if limiter.Tokens() >= float64(r.perSecond) {
			delete(r.hosts, host)
		}
	}
	if len(r.hosts) >= maxHosts {
		clear(r.hosts)
	}
}
