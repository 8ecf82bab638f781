package identity

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

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
