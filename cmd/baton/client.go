package main

import (
	"bufio"
	"bytes"
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
	base  string // scheme and host
	token string // "" on a socket
	http  *http.Client
}

// client returns the client that the flags name: --gateway, else the socket of the
// configuration.
func (c *cli) client() (*client, error) {
	if socket, ok := strings.CutPrefix(c.Gateway, "unix:"); ok {
		return socketClient(socket), nil
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
		return &client{base: (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), token: token, http: &http.Client{}}, nil
	}
	file, err := configs.Load(c.configPath())
	if err != nil {
		return nil, err
	}
	if file.Admin.Socket == "" {
		return nil, errors.New("the configuration has no admin.socket: name the gateway with --gateway")
	}
	return socketClient(file.Path(file.Admin.Socket)), nil
}

func socketClient(path string) *client {
	var dialer net.Dialer
	return &client{base: "http://gateway", http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
	}}}
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

// do sends one request and returns its answer, which the caller closes. A body of bytes
// goes as it is, any other as JSON. The error is
// an [*federation.UnavailableError] where nobody answers, and a [*operatorapi.ProblemError] for
// every other answer than a 2xx.
func (c *client) do(ctx context.Context, method string, path federation.URLPath, query url.Values, body any) (*http.Response, error) {
	var text io.Reader
	if raw, ok := body.([]byte); ok {
		text = bytes.NewReader(raw)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		text = bytes.NewReader(encoded)
	}
	target, err := federation.JoinURL(c.base, path, query)
	if err != nil {
		return nil, &usageError{err}
	}
	request, err := http.NewRequestWithContext(ctx, method, target, text)
	if err != nil {
		return nil, fmt.Errorf("ask gateway: %w", err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &federation.UnavailableError{What: "gateway", Err: dialled(err)}
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, problemIn(response)
	}
	return response, nil
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

// ask sends one request and reads its answer into a value.
func (c *client) ask(ctx context.Context, method string, path federation.URLPath, query url.Values, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	response, err := c.do(ctx, method, operatorapi.Prefix+path, query, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return &federation.UnavailableError{What: "gateway", Err: err}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// get is ask for what changes nothing.
func (c *client) get(ctx context.Context, path federation.URLPath, query url.Values, into any) error {
	return c.ask(ctx, http.MethodGet, path, query, nil, into)
}

// watch reads lines until the gateway or ctx ends, and returns nil at the end of
// either.
func (c *client) watch(ctx context.Context, path federation.URLPath, query url.Values, line func(text []byte) error) error {
	query.Set("watch", "")
	response, err := c.do(ctx, http.MethodGet, operatorapi.Prefix+path, query, nil)
	if err != nil {
		return err
	}
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
