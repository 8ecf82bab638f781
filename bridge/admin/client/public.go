package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// Public is the public listener of a gateway, for a logged-in participant. It renews its tokens and
// may be used concurrently.
type Public struct {
	base *url.URL
	http *http.Client
	// logIn begins a session; renew renews its tokens, or is nil to log in again.
	logIn func(ctx context.Context) (tokens, error)
	renew func(ctx context.Context) (tokens, error)

	mu  sync.Mutex
	now tokens
}

type tokens struct {
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token"`
	Ends    time.Time `json:"expires_at"`
}

// early is the remaining lifetime at which a token is renewed.
const early = time.Minute

var errAddress = errors.New("want https://HOST, or http:// on this machine")

func newPublic(address string) (*Public, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || u.Host == "" || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isOwn(u.Hostname())) {
		return nil, errAddress
	}
	return &Public{base: u, http: &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // redirects could leak the token
	}}, nil
}

func isOwn(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// WithKey returns the account of a DID at a gateway. The key of the DID logs in and signs each
// step. WithKey does no I/O.
func WithKey(address string, key federation.SigningKey) (*Account, error) {
	p, err := newPublic(address)
	if err != nil {
		return nil, err
	}
	p.logIn = func(ctx context.Context) (tokens, error) { return p.prove(ctx, key) }
	return &Account{Remote: participant.Remote{Post: p.post}, key: &key}, nil
}

func (p *Public) prove(ctx context.Context, key federation.SigningKey) (tokens, error) {
	var asked struct {
		Challenge string `json:"challenge"`
	}
	if err := p.ask(ctx, "/api/v1/auth/challenge", map[string]any{"did": key.DID}, &asked); err != nil {
		return tokens{}, err
	}
	home, _, ok := strings.Cut(asked.Challenge, "/login/")
	if !ok || !isOwn(p.base.Hostname()) && !strings.EqualFold(home, p.base.Hostname()) {
		return tokens{}, fmt.Errorf("%s asks to sign a login at %.100q: the signature could be used there", p.base.Host, home)
	}
	signature, err := key.Sign(ctx, []byte(asked.Challenge))
	if err != nil {
		return tokens{}, err
	}
	var got tokens
	return got, p.ask(ctx, "/api/v1/auth/token", map[string]any{
		"did": key.DID, "challenge": asked.Challenge, "signature": base64.RawURLEncoding.EncodeToString(signature),
	}, &got)
}

func (p *Public) ask(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := p.send(ctx, path, "", text)
	if err != nil {
		return err
	}
	if err := federation.DecodeJSON(answer, out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

const callTime = waitTime + 30*time.Second

// The token may be "".
func (p *Public) send(ctx context.Context, path, token string, text []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base.JoinPath(path).String(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := p.http.Do(r)
	if err != nil {
		return nil, unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		err := problemIn(response)
		if problem, ok := errors.AsType[*bridge.ProblemError](err); ok && response.StatusCode == http.StatusServiceUnavailable {
			err = &federation.UnavailableError{What: "gateway", Err: problem}
		}
		return nil, err
	}
	return readAnswer(response)
}

func (p *Public) post(ctx context.Context, operation string, arguments []byte) ([]byte, error) {
	token, err := p.token(ctx, "")
	if err != nil {
		return nil, err
	}
	answer, err := p.send(ctx, "/mcp/account/"+operation, token, arguments)
	if problem, ok := errors.AsType[*bridge.ProblemError](err); ok && problem.Code == bridge.CodeUnauthorized { // its session has ended
		if token, err = p.token(ctx, token); err == nil {
			answer, err = p.send(ctx, "/mcp/account/"+operation, token, arguments)
		}
	}
	return answer, err
}

// token returns an access token other than the refused one. It logs in or renews if necessary.
func (p *Public) token(ctx context.Context, refused string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Access != refused && time.Until(p.now.Ends) > early {
		return p.now.Access, nil
	}
	begin := p.logIn
	if p.renew != nil && p.now.Access != "" {
		begin = p.renew
	}
	got, err := begin(ctx)
	if err != nil {
		return "", err
	}
	p.now = got
	return got.Access, nil
}

type kept struct {
	Gateway string `json:"gateway"`
	Code    string `json:"code"` // digest of the pairing code
	Refresh string `json:"refresh_token"`
}

// ErrNotPaired is returned if there is neither a pairing code nor a stored session for a gateway.
var ErrNotPaired = errors.New("no saved session for this gateway: use --pair CODE or --key-file FILE")

// WithPairing returns the account of a pairing code. The refresh token is stored in a folder, and
// is used by later starts with the same code or with "". The gateway signs the steps. WithPairing
// does no network I/O.
func WithPairing(address, code, folder string) (*Account, error) {
	p, err := newPublic(address)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, strings.NewReplacer(":", "_", "[", "", "]", "").Replace(p.base.Host)+".json")
	digest := ""
	if _, err := os.Stat(file); code == "" && errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotPaired
	}
	if code != "" {
		sum := federation.DigestLoginCode(federation.PairingCode, code)
		digest = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	p.renew = func(ctx context.Context) (got tokens, err error) {
		err = exclusively(file, func(k kept) (kept, error) {
			if k.Refresh == "" || k.Gateway != p.base.String() {
				return k, ErrNotPaired
			}
			err := p.ask(ctx, "/api/v1/auth/refresh", map[string]any{"refresh_token": k.Refresh}, &got)
			k.Refresh = got.Refresh
			return k, err
		})
		return got, err
	}
	p.logIn = func(ctx context.Context) (got tokens, err error) {
		redeemed := false
		err = exclusively(file, func(k kept) (kept, error) {
			if code == "" || k.Code == digest && k.Gateway == p.base.String() {
				return k, nil
			}
			redeemed = true
			err := p.ask(ctx, "/api/v1/auth/pairing", map[string]any{"code": code}, &got)
			return kept{p.base.String(), digest, got.Refresh}, err
		})
		if err == nil && !redeemed {
			return p.renew(ctx)
		}
		return got, err
	}
	return &Account{Remote: participant.Remote{Post: p.post}}, nil
}

// exclusively changes a file that other processes may also change. It does not write the file if
// change returns an error or the same content.
func exclusively(path string, change func(kept) (kept, error)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // below a folder of the user
	if err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	var before kept
	text, err := io.ReadAll(io.LimitReader(f, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	if len(text) > 0 && federation.DecodeJSON(text, &before) != nil {
		return fmt.Errorf("read session: %s is damaged: delete it and pair again", path)
	}
	after, err := change(before)
	if err != nil || after == before {
		return err
	}
	if text, err = json.Marshal(after); err == nil { //nolint:gosec // G117: the file keeps the token
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	return nil
}
