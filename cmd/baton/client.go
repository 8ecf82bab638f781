package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/configs"
	"baton/federation"
)

// askTimeout bounds one request: a gateway that is alive answers in milliseconds,
// and one whose disk is slow within seconds.
const askTimeout = 30 * time.Second

// maxAnswerBytes bounds what is read of one answer: a page of 500 items, and more
// than that of steps with all their deliveries.
const maxAnswerBytes = 16 << 20

// client asks a running gateway. It is used by one command and dropped.
type client struct {
	*contract.Client // whose requests end within [askTimeout]

	endless *contract.Client // for answers that take longer
	base    string           // scheme and host
	http    *http.Client
}

// newAPIClient returns a client for the API below a base, with a token unless that is "".
func newAPIClient(base, token string, transport http.RoundTripper) (*client, error) {
	c := &client{base: base, http: &http.Client{Transport: transport}}
	var err error
	brief := &http.Client{Transport: transport, Timeout: askTimeout}
	if c.Client, err = contract.NewClient(base, contract.WithHTTPClient(caller{brief, token})); err != nil {
		return nil, fmt.Errorf("ask gateway: %w", err)
	}
	if c.endless, err = contract.NewClient(base, contract.WithHTTPClient(caller{c.http, token})); err != nil {
		return nil, fmt.Errorf("ask gateway: %w", err)
	}
	return c, nil
}

// caller sends the requests of the generated client.
type caller struct {
	http  *http.Client
	token string // "" on a socket
}

// Do implements [contract.HttpRequestDoer]. The error is an [*federation.UnavailableError] where
// the gateway does not answer, and a [*operatorapi.ProblemError] for every answer but a 2xx.
func (c caller) Do(request *http.Request) (*http.Response, error) {
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request) //nolint:gosec // the operator names the gateway
	if err != nil {
		return nil, &federation.UnavailableError{What: "gateway", Err: dialled(err)}
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, problemIn(response)
	}
	return response, nil
}

// answered reads the answer to a request. The response and the error are those of a method of
// [contract.Client].
func answered[T any](response *http.Response, err error) (T, error) {
	var into T
	if err != nil {
		return into, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return into, &federation.UnavailableError{What: "gateway", Err: err}
	}
	if err := json.Unmarshal(text, &into); err != nil {
		return into, fmt.Errorf("read answer: %w", err)
	}
	return into, nil
}

// client returns the client that the flags name: --gateway, else the socket of the
// configuration. The names are those that a request has in its path: one that no path can have
// is an error.
func (c *cli) client(names ...string) (*client, error) {
	gateway, err := c.anyClient()
	if err != nil {
		return nil, err
	}
	if _, err := federation.JoinURL(gateway.base, operatorapi.Prefix+federation.URLPath("named").Join(names...), nil); err != nil {
		return nil, &usageError{err}
	}
	return gateway, nil
}

func (c *cli) anyClient() (*client, error) {
	if socket, ok := strings.CutPrefix(c.Gateway, "unix:"); ok {
		return socketClient(socket)
	}
	if c.Gateway != "" {
		u, err := url.Parse(c.Gateway)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, &usageError{fmt.Errorf("--gateway: want unix:PATH or http(s)://HOST:PORT, not %q", c.Gateway)}
		}
		token, err := c.token()
		if err != nil {
			return nil, err
		}
		return newAPIClient((&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), token, nil)
	}
	file, err := configs.Load(c.configPath())
	if err != nil {
		return nil, err
	}
	if file.Admin.Socket == "" {
		return nil, errors.New("the configuration has no admin.socket: name the gateway with --gateway")
	}
	return socketClient(file.Path(file.Admin.Socket))
}

func socketClient(path string) (*client, error) {
	var dialer net.Dialer
	return newAPIClient("http://gateway", "", &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
	})
}

// token reads the file of --token-file.
func (c *cli) token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	token, err := configs.ReadSecret(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return token, nil
}

// dialled drops from an error what names our request instead of the gateway's
// address.
func dialled(err error) error {
	if asked, ok := errors.AsType[*url.Error](err); ok {
		return asked.Err
	}
	return err
}

// problemIn reads the error that a gateway answered with.
func problemIn(response *http.Response) error {
	var p operatorapi.ProblemError
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil || json.Unmarshal(text, &p) != nil || p.Code == "" {
		return fmt.Errorf("the gateway answers %s", response.Status)
	}
	return &p
}

// readLines passes on the lines of an answer until the gateway or ctx ends, and then returns nil.
func readLines(ctx context.Context, response *http.Response, line func(text []byte) error) error {
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswerBytes)
	for lines.Scan() {
		if err := line(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return &federation.UnavailableError{What: "gateway", Err: err}
	}
	return nil
}
