// Package aircagent is a client of an AIRC registry, written only from the specification. `baton
// demo` shows such an agent, `baton bench` measures its deliveries, and the lab of deploy counts
// them under faults.
package aircagent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/federation"
)

// Agent is one agent. Its methods block until the registry answers; an answer other than 2xx is a
// [*StatusError]. They may be called concurrently, except [Agent.Inbox] with itself.
//
// spec: airc-v0.1.1 §5-§7
type Agent struct {
	url    string
	handle string
	key    ed25519.PrivateKey
	keyID  string
	cursor string // cursor of its inbox

	mu      sync.Mutex
	current session
}

type session struct {
	did           federation.DID
	domain, token string
	registryKey   ed25519.PublicKey
}

// New returns an unregistered agent with a new key.
func New(address, handle string) (*Agent, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return WithKey(address, handle, private), nil
}

// WithKey returns an unregistered agent with a key.
func WithKey(address, handle string, key ed25519.PrivateKey) *Agent {
	public, _ := key.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	return &Agent{url: address, handle: handle, key: key, keyID: "k_" + hex.EncodeToString(sum[:8])}
}

// DID returns the DID of the agent, or "" before [Agent.Register].
func (a *Agent) DID() federation.DID { return a.last().did }

func (a *Agent) last() session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
}

// Register registers the agent with a proof that names the registry, and stores the key of the
// registry. A registered agent gets a new token.
func (a *Agent) Register(ctx context.Context) error {
	var asked struct {
		Challenge string `json:"challenge"`
		Audience  string `json:"aud"`
	}
	if err := a.call(ctx, http.MethodPost, "/register/challenge", nil, map[string]any{"handle": a.handle}, &asked); err != nil {
		return err
	}
	public, _ := a.key.Public().(ed25519.PublicKey)
	var registered struct {
		DID         federation.DID `json:"did"`
		Domain      string         `json:"domain"`
		AccessToken string         `json:"accessToken"`
	}
	registration := map[string]any{
		"aud": asked.Audience, "purpose": "register", "timestamp": time.Now().Unix(),
		"handle": a.handle, "publicKey": base64.RawURLEncoding.EncodeToString(public), "challenge": asked.Challenge,
	}
	text, err := json.Marshal(registration)
	if err != nil {
		return err
	}
	document, err := jcs.Transform(text)
	if err != nil {
		return err
	}
	registration["challengeSignature"] = a.sign(document)
	if err := a.call(ctx, http.MethodPost, "/register", nil, registration, &registered); err != nil {
		return err
	}
	var registry struct {
		PublicKey string `json:"publicKey"`
	}
	if err := a.call(ctx, http.MethodGet, "/.well-known/airc/registry.json", nil, nil, &registry); err != nil {
		return err
	}
	key, err := base64.RawURLEncoding.DecodeString(registry.PublicKey)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = session{registered.DID, registered.Domain, registered.AccessToken, key}
	return nil
}

// Send signs and posts one message.
func (a *Agent) Send(ctx context.Context, to, body string, payload map[string]any) error {
	message, err := a.Sign(to, body, payload)
	if err != nil {
		return err
	}
	_, err = a.Post(ctx, message)
	return err
}

// Sign returns a signed message to a handle.
func (a *Agent) Sign(to, body string, payload map[string]any) (map[string]any, error) {
	envelope := map[string]any{
		"v": "0.1", "id": rand.Text(), "kid": a.keyID, "aud": a.last().domain, "from": a.handle, "to": to,
		"timestamp": time.Now().Unix(), "body": body, "payload": payload,
	}
	document, err := canonical(envelope)
	if err != nil {
		return nil, err
	}
	envelope["signature"] = a.sign(document)
	return envelope, nil
}

// Post posts a message created by [Agent.Sign]. It returns the handoff's ID if the message is a
// step.
func (a *Agent) Post(ctx context.Context, message map[string]any) (handoff string, err error) {
	var answer struct {
		Handoff struct {
			ID string `json:"id"`
		} `json:"handoff"`
	}
	err = a.call(ctx, http.MethodPost, "/messages", nil, message, &answer)
	return answer.Handoff.ID, err
}

// Consent accepts messages of a handle.
func (a *Agent) Consent(ctx context.Context, handle string) error {
	return a.call(ctx, http.MethodPost, "/consent", nil, map[string]any{"handle": handle, "action": "accept"}, nil)
}

// Message has the members of a message that the agent reads.
type Message struct {
	Arrived time.Time `json:"-"` // time at which the agent read it
	ID      string    `json:"id"`
	From    string    `json:"from"`
	Payload struct {
		Type string `json:"type"`
		Data struct {
			Requester string `json:"requester"`
			ReplyTo   string `json:"replyTo"`
			Handoff   struct {
				ID      string `json:"id"`
				Event   string `json:"event"`
				EventID string `json:"event_id"`
				Title   string `json:"title"`
			} `json:"handoff"`
		} `json:"data"`
	} `json:"payload"`
}

// Inbox returns the new messages. If there are none, it waits for the first one, in whole seconds.
// A message without a signature of the registry is an error.
func (a *Agent) Inbox(ctx context.Context, wait time.Duration) (messages []Message, err error) {
	messages, a.cursor, err = a.InboxAfter(ctx, a.cursor, wait)
	return messages, err
}

// InboxAfter returns the messages after a cursor, or after the start for "". After an error, the
// next cursor is the same.
func (a *Agent) InboxAfter(ctx context.Context, cursor string, wait time.Duration) (messages []Message, next string, err error) {
	var page struct {
		Messages   []json.RawMessage `json:"messages"`
		NextCursor string            `json:"nextCursor"`
	}
	query := url.Values{"cursor": {cursor}}
	if wait > 0 {
		query.Set("wait", strconv.Itoa(int(wait.Seconds())))
	}
	if err := a.call(ctx, http.MethodGet, "/messages/inbox", query, nil, &page); err != nil {
		return nil, cursor, err
	}
	arrived := time.Now()
	for _, text := range page.Messages {
		var m Message
		if err := errors.Join(a.verify(text), federation.DecodeJSON(text, &m)); err != nil {
			return nil, cursor, err
		}
		m.Arrived = arrived
		messages = append(messages, m)
	}
	return messages, page.NextCursor, nil
}

func (a *Agent) verify(text []byte) error {
	var members map[string]any
	if err := federation.DecodeJSON(text, &members); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	encoded, _ := members["signature"].(string)
	signature, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("verify message: %w", err)
	}
	delete(members, "signature")
	delete(members, "seq")
	document, err := canonical(members)
	if err != nil {
		return err
	}
	if !ed25519.Verify(a.last().registryKey, document, signature) {
		return errors.New("verify message: the signature does not match")
	}
	return nil
}

func (a *Agent) sign(document []byte) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(a.key, document))
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Status  int
	Request string // method and path
	Text    string // body
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.Request, e.Status, http.StatusText(e.Status), e.Text)
}

// The error is a [*StatusError] for any status but 2xx.
func (a *Agent) call(ctx context.Context, method string, path federation.URLPath, query url.Values, body, answer any) (err error) {
	address, err := federation.JoinURL(a.url, path, query)
	if err != nil {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write %s %s: %w", method, path, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("write %s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token := a.last().token; token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	read, err := io.ReadAll(response.Body) // to the end, for connection reuse
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return &StatusError{response.StatusCode, method + " " + string(path), string(read)}
	}
	if answer == nil {
		return nil
	}
	return federation.DecodeJSON(read, answer)
}

func canonical(members map[string]any) ([]byte, error) {
	text, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("write envelope: %w", err)
	}
	return jcs.Transform(text)
}
