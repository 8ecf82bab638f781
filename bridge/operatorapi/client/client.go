// Package client asks a running gateway over the operator API. The commands of the program use it.
//
// A [Client] has the generated methods of [contract.Client], one for each route. [Read] reads
// their answers. For what takes several requests or more than a JSON document, the Client has
// methods of its own: [Client.Take] signs and submits a step, [Client.Handoff] reads a handoff
// with all its steps, [Client.Passport] and [Client.Backup] fetch files.
//
// Every error of a request is a [*federation.UnavailableError] where the gateway does not answer,
// and a [*bridge.ProblemError] for an answer that is no 2xx. A Client is safe for concurrent use.
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

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// requestTimeout bounds one request: a live gateway answers in milliseconds, and one with a slow
// disk within seconds.
const requestTimeout = 30 * time.Second

// maxAnswerBytes bounds one answer: a page of 500 items is shorter, also one of steps with all
// their deliveries.
const maxAnswerBytes = 16 << 20

// Client asks a running gateway. Make one with [New] or [NewSocket].
type Client struct {
	*contract.Client // its requests end within [requestTimeout]

	endless *contract.Client // its requests have no timeout
	base    string           // scheme and host
	http    *http.Client
}

// AddressError is returned for an address that no gateway can have.
type AddressError struct{ Address string }

// Error implements [error].
func (e *AddressError) Error() string {
	return fmt.Sprintf("want unix:PATH or http(s)://HOST:PORT, not %q", e.Address)
}

// Open returns a client of the gateway at an address: unix:PATH, or http(s)://HOST:PORT, which is
// asked with a token unless that is "". It does no I/O. The error is an [*AddressError].
func Open(address, token string) (*Client, error) {
	if socket, ok := strings.CutPrefix(address, "unix:"); ok {
		return NewSocket(socket)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &AddressError{address}
	}
	return New((&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), token, nil)
}

// NewSocket returns a client of the gateway that listens on a Unix socket.
func NewSocket(path string) (*Client, error) {
	var dialer net.Dialer
	return New("http://gateway", "", &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
	})
}

// New returns a client of the API below a base. The token may be "", and the transport nil for the
// default one.
func New(base, token string, transport http.RoundTripper) (*Client, error) {
	c := &Client{base: base, http: &http.Client{Transport: transport}}
	var err error
	brief := &http.Client{Transport: transport, Timeout: requestTimeout}
	if c.Client, err = contract.NewClient(base, contract.WithHTTPClient(caller{brief, token})); err != nil {
		return nil, fmt.Errorf("ask gateway: %w", err)
	}
	if c.endless, err = contract.NewClient(base, contract.WithHTTPClient(caller{c.http, token})); err != nil {
		return nil, fmt.Errorf("ask gateway: %w", err)
	}
	return c, nil
}

// CheckNames returns an error for a name that the path of a request cannot have.
func (c *Client) CheckNames(names ...string) error {
	_, err := federation.JoinURL(c.base, contract.Prefix+federation.URLPath("named").Join(names...), nil)
	return err
}

// Request is one request of the generated client.
type Request func(api *contract.Client) (*http.Response, error)

// Ask sends a request and reads the answer.
func Ask[T any](c *Client, ask Request) (T, error) {
	return Read[T](ask(c.Client))
}

// caller sends the requests of the generated client.
type caller struct {
	http  *http.Client
	token string // "" on a socket
}

// Do implements [contract.HttpRequestDoer].
func (c caller) Do(request *http.Request) (*http.Response, error) {
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unreachable(err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, problemIn(response)
	}
	return response, nil
}

// unreachable returns the error for a request that got no answer. It drops the part of the text
// that names the request, so that the address of the gateway remains.
func unreachable(err error) error {
	if asked, ok := err.(*url.Error); ok { //nolint:errorlint // net/http promises this type
		err = asked.Err
	}
	return &federation.UnavailableError{What: "gateway", Err: err}
}

// problemIn reads the problem that a gateway answered with.
func problemIn(response *http.Response) error {
	var p bridge.ProblemError
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil || federation.DecodeJSON(text, &p) != nil || p.Code == "" {
		return fmt.Errorf("the gateway answers %s", response.Status)
	}
	return &p
}

// Read reads the answer to a request and closes it. It takes the results of a method of
// [contract.Client].
func Read[T any](response *http.Response, err error) (T, error) {
	var into T
	if err != nil {
		return into, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return into, &federation.UnavailableError{What: "gateway", Err: err}
	}
	if err := federation.DecodeJSON(text, &into); err != nil {
		return into, fmt.Errorf("read answer: %w", err)
	}
	return into, nil
}
