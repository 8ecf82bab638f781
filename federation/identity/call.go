package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"code.dny.dev/ssrf"
)

// ErrTurn is wrapped in the error of [Client.Call] when the rate of the host is used up: the call was not
// made, and can be made in a second.
var ErrTurn = errors.New("the host is asked as often as may be")

// Callable returns nil for an address that [Client.Call] would call now. The error wraps [ErrNotAllowed]
// for an address that it never calls, such as a name with a private address, and
// [*federation.UnavailableError] when the name cannot be resolved. The owner of a name may change its
// address, so each call checks again.
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

// callee parses an address at which a participant wants to be called.
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

// Call posts JSON with headers of the caller to an address, and returns the answer without its body. It
// does not follow redirects. The error wraps [ErrTurn] when the rate of the host is used up,
// [ErrNotAllowed] for an address that is never called or is not public now, and
// [*federation.UnavailableError] when there was no answer. It blocks for at most the timeout.
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
	return Answer{Status: response.StatusCode, RetryAfter: retryAfter(response.Header)}, nil
}

// retryAfter returns the wait that a host asks for: zero where it names none, a date, or more than 18
// hours.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// shown returns only the scheme and host of an address given by a participant, because its path is
// often a secret.
func shown(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }

// Answer is the answer of a host, with any status.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration // zero where the host named none
}

// Post sends JSON to an address and returns the answer with any status. It does not follow redirects. The
// error wraps [*federation.UnavailableError] when there was no answer, or one that is too long: the host
// may have received the message. It blocks for at most the timeout.
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
	return Answer{Status: response.StatusCode, Body: content, RetryAfter: retryAfter(response.Header)}, nil
}
