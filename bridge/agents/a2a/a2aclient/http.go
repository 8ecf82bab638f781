package a2aclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/golang-jwt/jwt/v5"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

const (
	maxAnswerBytes = 8 << 20  // a task with its artifacts
	maxStreamBytes = 64 << 20 // the stream is then reopened
	maxCardBytes   = 256 << 10
	sendTimeout    = 2 * time.Minute // less than an outbox attempt: an agent may work before it answers
	callTimeout    = 30 * time.Second
	maxTokenBytes  = 64 << 10
	assertionLife  = 5 * time.Minute
)

var (
	errTooLarge = fmt.Errorf("the answer has more than %d bytes", maxAnswerBytes)
	errRedirect = errors.New("redirects are not followed: give the final URL")
)

type statusError struct {
	code  int
	after time.Duration // wait before a retry; 0 if unknown
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.code, http.StatusText(e.code))
	if e.code == http.StatusUnauthorized || e.code == http.StatusForbidden {
		text += ": check credentials_file or client_key_file"
	}
	return text
}

type transport struct {
	link      *Link
	next      http.RoundTripper
	authorize func(r *http.Request) error // nil adds nothing
}

func (l *Link) newHTTPClient(authorize func(r *http.Request) error) *http.Client {
	return &http.Client{
		Transport:     &transport{l, l.deps.Transport(l.cfg.AllowPrivate), authorize},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}

func (l *Link) checkTLS(host string, plain bool) error {
	if plain && !l.cfg.AllowPrivate && !l.ports.HTTP.FetchPrivate {
		return fmt.Errorf("%s: %w: want https, or allow_private", host, identity.ErrNotAllowed)
	}
	return nil
}

// RoundTrip implements [http.RoundTripper]. It reads the whole body, unless it is a stream.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.link.checkTLS(r.URL.Host, r.URL.Scheme != "https"); err != nil {
		return nil, err
	}
	if t.authorize != nil {
		r = r.Clone(r.Context())
		if err := t.authorize(r); err != nil {
			return nil, err
		}
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		t.link.recordOutcome(r.Context(), err)
		return nil, err
	}
	status := &statusError{response.StatusCode, identity.RetryAfter(response.Header)}
	switch response.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		_ = response.Body.Close()
		t.link.recordOutcome(r.Context(), status)
		return nil, status
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		_ = response.Body.Close()
		t.link.recordOutcome(r.Context(), nil)
		return nil, status
	}
	if media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); media == "text/event-stream" {
		response.Body = limited{io.LimitReader(response.Body, maxStreamBytes), response.Body}
		return response, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	t.link.recordOutcome(r.Context(), err)
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswerBytes:
		return nil, errTooLarge
	}
	if len(body) > 0 && response.StatusCode == http.StatusOK {
		if err := federation.ExactJSON(body); err != nil {
			return nil, fmt.Errorf("the answer is not acceptable JSON: %w", err)
		}
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

// limited reads a prefix of a body, but closes all of it.
type limited struct {
	io.Reader
	io.Closer
}

func (l *Link) authorize(r *http.Request) error {
	if l.secrets.clientKey != nil {
		token, err := l.token(r.Context())
		if err != nil {
			return fmt.Errorf("get access token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	if l.secrets.credential == "" {
		return nil
	}
	var bearer, basic bool
	var key *wire.APIKeySecurityScheme
	for _, scheme := range l.card.Load().schemes {
		switch s := scheme.(type) {
		case wire.HTTPAuthSecurityScheme:
			isBasic := strings.EqualFold(s.Scheme, "basic")
			basic, bearer = basic || isBasic, bearer || !isBasic
		case wire.OAuth2SecurityScheme, wire.OpenIDConnectSecurityScheme:
			bearer = true
		case wire.APIKeySecurityScheme:
			key = &s
		}
	}
	switch {
	case bearer || !basic && key == nil:
		r.Header.Set("Authorization", "Bearer "+l.secrets.credential)
	case basic:
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(l.secrets.credential)))
	case key.Location == wire.APIKeySecuritySchemeLocationQuery:
		query := r.URL.Query()
		query.Set(key.Name, l.secrets.credential)
		r.URL.RawQuery = query.Encode()
	case key.Location == wire.APIKeySecuritySchemeLocationCookie:
		r.AddCookie(&http.Cookie{Name: key.Name, Value: l.secrets.credential}) //nolint:gosec // G124: of a request, which has no attributes
	default:
		r.Header.Set(key.Name, l.secrets.credential)
	}
	return nil
}

type accessToken struct {
	mu    sync.Mutex
	text  string
	until time.Time
}

// token replaces a token shortly before it expires.
//
// spec: RFC 7523 §2.2
func (l *Link) token(ctx context.Context) (string, error) {
	l.access.mu.Lock()
	defer l.access.mu.Unlock()
	now := time.Now()
	if now.Before(l.access.until) {
		return l.access.text, nil
	}
	address := l.card.Load().tokenURL()
	if address == "" {
		return "", errors.New("the card names no token URL for client_credentials")
	}
	assertion, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss": l.cfg.ClientID, "sub": l.cfg.ClientID, "aud": address, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}).SignedString(l.secrets.clientKey)
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {l.cfg.ClientID}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := l.newHTTPClient(nil).Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Token     string `json:"access_token"`
		ExpiresIn int    `json:"expires_in"`
		Error     string `json:"error"`
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxTokenBytes))
	if err == nil {
		err = federation.DecodeJSON(body, &answer)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("status %d: %w", response.StatusCode, err)
	case answer.Token == "":
		return "", fmt.Errorf("status %d: %s", response.StatusCode, answer.Error)
	}
	l.access.text, l.access.until = answer.Token, now.Add(time.Duration(answer.ExpiresIn)*time.Second*9/10)
	return answer.Token, nil
}

// get sends no credentials.
func (l *Link) get(ctx context.Context, address string) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set(wire.SvcParamVersion, string(wire.Version))
	response, err := l.newHTTPClient(nil).Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, nil, err
	case response.StatusCode != http.StatusOK:
		return nil, nil, &statusError{code: response.StatusCode}
	case len(body) > maxCardBytes:
		return nil, nil, errTooLarge
	}
	return body, response.Header, nil
}

func encoded(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return text, nil
}
