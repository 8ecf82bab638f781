// Package client is the client of the operator API for the program's commands.
//
// [Call] calls a route of package admin, and [Watch] watches a list. The methods of [Client]
// combine requests or handle files: [Client.Take] signs and submits a step, [Client.Handoff] reads
// a handoff with all its steps, [Client.Passport] and [Client.Backup] fetch files.
//
// The error of a request is a [*federation.UnavailableError] if the gateway does not answer, a
// [*bridge.ProblemError] for an answer without a 2xx status, or a [*route.NameError] for a name
// that cannot be part of a path. A Client is safe for concurrent use.
package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// requestTimeout bounds one request. A gateway answers in milliseconds, or within seconds on a slow
// disk.
const requestTimeout = 30 * time.Second

// maxAnswerBytes is larger than a page of 500 items, even of steps with all their deliveries.
const maxAnswerBytes = 16 << 20

// Client sends requests to a running gateway. Create one with [New] or [NewSocket].
type Client struct {
	base      string // scheme and host
	token     string // "" on a socket
	transport http.RoundTripper
}

// AddressError is returned for an invalid address of a gateway.
type AddressError struct{ Address string }

func (e *AddressError) Error() string {
	return fmt.Sprintf("want unix:PATH or http(s)://HOST:PORT, not %q", e.Address)
}

// Open returns a client of the gateway at unix:PATH or http(s)://HOST:PORT. The token may be "". It
// does no I/O. The error is an [*AddressError].
func Open(address, token string) (*Client, error) {
	if socket, ok := strings.CutPrefix(address, "unix:"); ok {
		return NewSocket(socket), nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &AddressError{address}
	}
	return New((&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), token, nil), nil
}

// NewSocket returns a client of the gateway that listens on a Unix socket.
func NewSocket(path string) *Client {
	var dialer net.Dialer
	return New("http://gateway", "", &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
	})
}

// New returns a client of the API below a base URL. The token may be ""; a nil transport is the
// default one.
func New(base, token string, transport http.RoundTripper) *Client {
	return &Client{base: base, token: token, transport: transport}
}

// Call sends a request and reads the answer.
func Call[In, Out any](ctx context.Context, c *Client, r route.Route[In, Out], in In) (Out, error) {
	var out Out
	err := c.call(ctx, route.Spec(r), in, &out)
	return out, err
}

func (c *Client) call(ctx context.Context, r route.Spec, in, out any) error {
	request, err := r.Request(ctx, c.base, admin.Prefix, in)
	if err != nil {
		return err
	}
	timeout := requestTimeout
	if r.Slow {
		timeout = 0
	}
	response, err := c.send(request, timeout)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := readAnswer(response)
	if err != nil {
		return err
	}
	if err := federation.DecodeJSON(text, out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// open sends a request without a timeout. The caller closes the response.
func open[In, Out any](ctx context.Context, c *Client, r route.Route[In, Out], in In) (*http.Response, error) {
	request, err := route.Spec(r).Request(ctx, c.base, admin.Prefix, in)
	if err != nil {
		return nil, err
	}
	return c.send(request, 0)
}

// Timeout 0 means none. The caller closes the response.
func (c *Client) send(request *http.Request, timeout time.Duration) (*http.Response, error) {
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := (&http.Client{Transport: c.transport, Timeout: timeout}).Do(request)
	if err != nil {
		return nil, unreachable(err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, problemIn(response)
	}
	return response, nil
}

func readAnswer(response *http.Response) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, &federation.UnavailableError{What: "gateway", Err: err}
	}
	return text, nil
}

// The text of the error names the gateway but not the request.
func unreachable(err error) error {
	if asked, ok := err.(*url.Error); ok { //nolint:errorlint // net/http promises this type
		err = asked.Err
	}
	return &federation.UnavailableError{What: "gateway", Err: err}
}

func problemIn(response *http.Response) error {
	var p bridge.ProblemError
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil || federation.DecodeJSON(text, &p) != nil || p.Code == "" {
		return fmt.Errorf("the gateway answers %s", response.Status)
	}
	return &p
}
