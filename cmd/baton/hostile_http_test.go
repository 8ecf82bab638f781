package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An httpRequest is one to a listener of the gateway.
type httpRequest struct {
	method, path string // path as it is written, with its query
	token        string
	body         any // JSON; bytes are sent as they are
	header       map[string]string
	host         string // "" for that of the listener
}

func posting(path, token string, body any) httpRequest {
	return httpRequest{method: http.MethodPost, path: path, token: token, body: body}
}

func getting(path, token string) httpRequest {
	return httpRequest{method: http.MethodGet, path: path, token: token}
}

// A listener answers requests.
type listener struct {
	base      string
	transport http.RoundTripper
}

func (s *stage) public() listener { return listener{s.url(), http.DefaultTransport} }

// answer returns the status and the code of a listener's answer.
func (s *stage) answer(t *testing.T, at listener, r httpRequest) string {
	t.Helper()
	status, body := s.exchange(t, at, r)
	var said struct{ Error, Code string }
	_ = json.Unmarshal(body, &said) // an answer of another kind has no code
	return strings.TrimSpace(fmt.Sprint(status, " ", cmp.Or(said.Error, said.Code)))
}

// exchange sends a request and returns the answer. It notes the expected
// access log.
func (s *stage) exchange(t *testing.T, at listener, r httpRequest) (status int, body []byte) {
	t.Helper()
	var sent io.Reader
	switch content := r.body.(type) {
	case nil:
	case []byte:
		sent = bytes.NewReader(content)
	default:
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		sent = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	to, err := http.NewRequestWithContext(ctx, r.method, at.base+r.path, sent)
	if err != nil {
		t.Fatal(err)
	}
	if sent != nil {
		to.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		to.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range r.header {
		to.Header.Set(name, value)
	}
	to.Host = r.host
	response, err := at.transport.RoundTrip(to)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.answered[accessKey(r.method, to.URL.Path, response.StatusCode)]++
	s.mu.Unlock()
	return response.StatusCode, body
}

// twice returns an object as JSON with one of its members there twice.
func twice(t *testing.T, object map[string]any, name string, other any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(map[string]any{name: other})
	if err != nil {
		t.Fatal(err)
	}
	return append(append(text[:len(text)-1], ','), again[1:]...)
}

// misshapenBodies returns bodies that no reader takes: one as large as it says, and others
// as deep.
func misshapenBodies(large, deep int) map[string][]byte {
	return map[string][]byte{
		"huge":             []byte(`{"x":"` + strings.Repeat("x", large) + `"}`),
		"deep arrays":      []byte(`{"x":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`),
		"deep objects":     []byte(strings.Repeat(`{"x":`, deep) + "1" + strings.Repeat("}", deep)),
		"invalid UTF-8":    []byte("{\"x\":\"\xff\xfe\"}"),
		"half a surrogate": []byte(`{"x":"\ud800"}`),
		"a cut object":     []byte(`{"x":`),
		"two objects":      []byte(`{}{}`),
		"an array":         []byte(`[]`),
		"__proto__":        []byte(`{"__proto__":{"x":1}}`),
		"a null byte":      []byte("{\"x\":\"a\x00b\"}"),
	}
}

// misshapes posts each misshapen body. The huge one is above every limit, but small enough
// for a listener to discard before it closes the connection.
func (s *stage) misshapes(t *testing.T, at listener, path, token, malformed, large string) []attempt {
	t.Helper()
	var all []attempt
	for name, body := range misshapenBodies(280_000, 10_000) {
		want := malformed
		if name == "huge" {
			want = large
		}
		all = append(all, attempt{path + ": " + name, s.answer(t, at, posting(path, token, body)), want})
	}
	return all
}

// badTokens returns tokens that admit no caller, made of one that does.
func (s *stage) badTokens(t *testing.T, good string) map[string]string {
	t.Helper()
	bad := map[string]string{"none": "", "garbage": "garbage", "three parts": "a.b.c", "one byte changed": flip(good)}
	parts := strings.Split(good, ".")
	if len(parts) != 3 {
		return bad // an operator token says nothing
	}
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	bad["algorithm none"] = none + "." + parts[1] + "."
	bad["algorithm none with the signature"] = none + "." + parts[1] + "." + parts[2]
	bad["signed by another key"] = forgeToken(t, good, []byte("another key"), nil)
	bad["of another issuer"] = s.forge(t, good, map[string]any{"iss": "elsewhere.test"})
	bad["for another audience"] = s.forge(t, good, map[string]any{"aud": "elsewhere.test"})
	bad["a refresh token"] = s.forge(t, good, map[string]any{"use": "refresh"})
	bad["expired"] = s.forge(t, good, map[string]any{"exp": time.Now().Add(-time.Second).Unix()})
	return bad
}

// flip returns a text with one character in its middle changed.
func flip(text string) string {
	b := []byte(text)
	at := len(b) / 2
	if b[at] == '.' {
		at++
	}
	if b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	return string(b)
}

// withBadTokens sends one request with each bad token. An expired one may be told apart.
func (s *stage) withBadTokens(t *testing.T, at listener, r httpRequest, want, expired string) []attempt {
	t.Helper()
	var all []attempt
	for name, token := range s.badTokens(t, r.token) {
		r.token = token
		each := want
		if name == "expired" {
			each = expired
		}
		all = append(all, attempt{r.method + " " + r.path + ": " + name, s.answer(t, at, r), each})
	}
	return all
}

// connects asks a listener for a tunnel.
func (s *stage) connects(t *testing.T, network, address string) []attempt {
	t.Helper()
	var all []attempt
	for _, target := range []string{"127.0.0.1:22", "example.com:443", "/operator/v1/handoffs"} {
		conn := dialStage(t, network, address)
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: example.com\r\n\r\n", target)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		_ = conn.Close()
		all = append(all, attempt{target, fmt.Sprint(response.StatusCode), "405"})
	}
	return all
}

func dialStage(t *testing.T, network, address string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// drips opens connections whose headers or bodies never end, and asks meanwhile. The
// connections stay open until the entrance has been told every lie.
func (s *stage) drips(t *testing.T, network, address, path string, meanwhile func() attempt) []attempt {
	t.Helper()
	const each = 64
	var all []attempt
	for _, start := range []string{
		"POST " + path + " HTTP/1.1\r\nHost: gw.test\r\nX-Slow: ",
		"POST " + path + " HTTP/1.1\r\nHost: gw.test\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
	} {
		for range each {
			fmt.Fprint(dialStage(t, network, address), start)
		}
		all = append(all, meanwhile())
	}
	return all
}

func encodeSignature(signature []byte) string { return base64.RawURLEncoding.EncodeToString(signature) }

// exchangeJSON posts a body, reads the answer if there is a place for it, and returns the
// status; 0 if no answer came.
func exchangeJSON(ctx context.Context, client *http.Client, address, token string, body, into any) int {
	text, err := json.Marshal(body)
	if err != nil {
		return 0
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(said, into)
	}
	if err != nil {
		return 0
	}
	return response.StatusCode
}
