package airc

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/federation"
)

const wellKnown = "/.well-known/airc/registry.json"

// maxAnswerBytes is larger than a page of an inbox.
const maxAnswerBytes = 16 << 20

type stage struct {
	url    string
	key    func(name string) (federation.SigningKey, error)
	http   *http.Client
	agents map[string]*agent // by name
}

type agent struct {
	handle          string
	key             federation.SigningKey
	domain          string
	access, refresh string
}

type answer struct {
	status int
	body   map[string]any
}

func (a answer) text(name string) string {
	text, _ := a.body[name].(string)
	return text
}

func (a answer) succeeds() error {
	if a.status >= 200 && a.status < 300 {
		return nil
	}
	return fmt.Errorf("answered %d %v, want success", a.status, a.body)
}

func (a answer) refuses() error {
	if a.status < 400 || a.status >= 500 {
		return fmt.Errorf("answered %d %v, want a refusal", a.status, a.body)
	}
	if a.text("error") == "" {
		return fmt.Errorf("answered %d without a code in error: %v", a.status, a.body)
	}
	return nil
}

// The token may be "".
func (s *stage) ask(ctx context.Context, token, method, path string, body any) (answer, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return answer{}, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	got := answer{status: response.StatusCode}
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	if err := federation.DecodeJSON(text, &got.body); err != nil {
		return answer{}, fmt.Errorf("%s %s: answered %d, and no JSON object: %w", method, path, got.status, err)
	}
	return got, nil
}

func (s *stage) succeed(ctx context.Context, token, method, path string, body any) (answer, error) {
	got, err := s.ask(ctx, token, method, path, body)
	if err == nil {
		err = got.succeeds()
	}
	return got, err
}

func (s *stage) newcomer(name string) (*agent, error) {
	key, err := s.key(name)
	if err != nil {
		return nil, err
	}
	return &agent{handle: name + "_" + strings.ToLower(rand.Text()[:8]), key: key}, nil
}

func (s *stage) challenge(ctx context.Context, handle string) (string, error) {
	got, err := s.ask(ctx, "", http.MethodPost, "/register/challenge", map[string]any{"handle": handle})
	if err != nil {
		return "", err
	}
	if challenge := got.text("challenge"); challenge != "" {
		return challenge, nil
	}
	return "", fmt.Errorf("no challenge: answered %d %v", got.status, got.body)
}

func (s *stage) answerChallenge(ctx context.Context, a *agent, challenge string, signer federation.SigningKey) (answer, error) {
	proof, err := signer.Sign(ctx, []byte(challenge))
	if err != nil {
		return answer{}, err
	}
	return s.ask(ctx, "", http.MethodPost, "/register", map[string]any{
		"handle": a.handle, "publicKey": base64.RawURLEncoding.EncodeToString(a.key.Public),
		"challenge": challenge, "challengeSignature": base64.RawURLEncoding.EncodeToString(proof),
	})
}

func (s *stage) register(ctx context.Context, a *agent) error {
	challenge, err := s.challenge(ctx, a.handle)
	if err != nil {
		return err
	}
	got, err := s.answerChallenge(ctx, a, challenge, a.key)
	if err != nil {
		return err
	}
	if err := got.succeeds(); err != nil {
		return err
	}
	a.access, a.refresh, a.domain = got.text("accessToken"), got.text("refreshToken"), got.text("domain")
	if a.access == "" || a.refresh == "" || a.domain == "" || !strings.HasPrefix(got.text("did"), "did:") {
		return fmt.Errorf("the answer lacks did, domain, accessToken or refreshToken: %v", got.body)
	}
	return nil
}

func (s *stage) actor(ctx context.Context, name string) (*agent, error) {
	if a := s.agents[name]; a != nil {
		return a, nil
	}
	a, err := s.newcomer(name)
	if err != nil {
		return nil, err
	}
	if err := s.register(ctx, a); err != nil {
		return nil, fmt.Errorf("register %s: %w", a.handle, err)
	}
	s.agents[name] = a
	return a, nil
}

func (s *stage) impostor(ctx context.Context) (sender, other *agent, err error) {
	if sender, err = s.actor(ctx, Sender); err != nil {
		return nil, nil, err
	}
	other, err = s.newcomer("eve")
	return sender, other, err
}

func (s *stage) pair(ctx context.Context, from, to string) (sender, recipient *agent, err error) {
	if sender, err = s.actor(ctx, from); err != nil {
		return nil, nil, err
	}
	recipient, err = s.actor(ctx, to)
	return sender, recipient, err
}

func (a *agent) envelope(to *agent, body string) map[string]any {
	sum := sha256.Sum256(a.key.Public)
	return map[string]any{
		"v": "0.1", "id": rand.Text(), "kid": "k_" + hex.EncodeToString(sum[:8]), "aud": a.domain,
		"from": a.handle, "to": to.handle, "timestamp": time.Now().Unix(), "body": body,
	}
}

func signed(ctx context.Context, envelope map[string]any, key federation.SigningKey) (map[string]any, error) {
	text, err := json.Marshal(envelope)
	if err != nil {
		return nil, err
	}
	document, err := jcs.Transform(text)
	if err != nil {
		return nil, err
	}
	signature, err := key.Sign(ctx, document)
	if err != nil {
		return nil, err
	}
	message := maps.Clone(envelope)
	message["signature"] = base64.RawURLEncoding.EncodeToString(signature)
	return message, nil
}

func (s *stage) send(ctx context.Context, from *agent, envelope map[string]any, key federation.SigningKey) (answer, error) {
	message, err := signed(ctx, envelope, key)
	if err != nil {
		return answer{}, err
	}
	return s.ask(ctx, from.access, http.MethodPost, "/messages", message)
}

func (s *stage) consent(ctx context.Context, of, sender *agent, action string) error {
	_, err := s.succeed(ctx, of.access, http.MethodPost, "/consent", map[string]any{"handle": sender.handle, "action": action})
	return err
}

func (s *stage) inbox(ctx context.Context, a *agent, cursor string) (messages []map[string]any, next string, err error) {
	got, err := s.succeed(ctx, a.access, http.MethodGet, "/messages/inbox?"+url.Values{"cursor": {cursor}}.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	list, _ := got.body["messages"].([]any)
	for _, each := range list {
		if message, ok := each.(map[string]any); ok {
			messages = append(messages, message)
		}
	}
	return messages, got.text("nextCursor"), nil
}

func (s *stage) count(ctx context.Context, a *agent, body string) (n int, err error) {
	for cursor := ""; ; {
		messages, next, err := s.inbox(ctx, a, cursor)
		if err != nil {
			return 0, err
		}
		for _, m := range messages {
			if m["body"] == body {
				n++
			}
		}
		if len(messages) == 0 || next == "" || next == cursor {
			return n, nil
		}
		cursor = next
	}
}

func (s *stage) staysOut(ctx context.Context, a *agent, body string) error {
	n, err := s.count(ctx, a, body)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d messages with the body %q arrived", n, body)
	}
	return err
}

func (s *stage) arrives(ctx context.Context, a *agent, body string) error {
	for deadline := time.Now().Add(patience); ; {
		n, err := s.count(ctx, a, body)
		if err != nil || n == 1 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the inbox has %d messages with the body %q, want one", n, body)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
